"""X.509, JWS and key material as pure functions: bytes and ``now`` in, a decision out or an error raised."""
