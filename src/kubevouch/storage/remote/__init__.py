"""A store that another process of this machine has open, over a Unix socket (docs/adr/0042-workers.md)."""
