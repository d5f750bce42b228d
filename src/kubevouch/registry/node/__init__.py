"""Resources of node.k8s.io, one file each."""
