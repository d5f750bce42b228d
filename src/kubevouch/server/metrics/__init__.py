"""The metrics of the server, under Kubernetes' names."""
