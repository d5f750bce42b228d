"""Microsoft Azure: an attested document for this key's nonce, and the token of a managed identity beside it."""
