"""Resources of apiextensions.k8s.io, one file each."""
