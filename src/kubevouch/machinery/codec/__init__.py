"""Bytes and texts to structs and trees, and back: JSON, protobuf, YAML."""
