"""Which requests are granted: pure functions of the request, what the cluster knows, and the time."""
