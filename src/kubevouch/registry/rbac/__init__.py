"""Resources of rbac.authorization.k8s.io, one file each."""
