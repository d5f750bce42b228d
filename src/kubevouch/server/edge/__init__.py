"""Where bytes from anybody arrive: connections, TLS handshakes, the framing of HTTP."""
