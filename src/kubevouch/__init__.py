"""kubevouch decides which machines may join a Kubernetes cluster."""
