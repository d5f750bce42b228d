"""Resources of resource.k8s.io, one file each."""
