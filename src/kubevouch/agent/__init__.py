"""The node's process: finds its cluster, proves it, asks for a certificate and keeps it."""
