"""Certificates and requests to the byte as Go reads and writes them: DER, extensions, names, keys, signatures."""
