"""What the API server itself puts into an empty or older store: namespaces and RBAC policy."""
