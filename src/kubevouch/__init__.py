"""kubevouch decides which machines may join a Kubernetes cluster."""

__version__ = "0.1.0"
