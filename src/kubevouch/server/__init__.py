"""The API server: HTTPS edge, handler chain, handlers, discovery, OpenAPI, health."""
