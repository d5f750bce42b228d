"""Resources of authentication.k8s.io, one file each."""
