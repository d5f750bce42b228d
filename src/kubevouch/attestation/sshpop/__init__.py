"""Possession of an SSH host key that a CA of hosts has certified."""
