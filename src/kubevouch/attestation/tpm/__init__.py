"""A machine with a TPM 2.0: what the node shows and what the server asks, version v1."""
