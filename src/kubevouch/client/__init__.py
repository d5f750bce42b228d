"""The one way to reach an API server: a client with two transports, caches and queues above it."""
