"""The command line: one file per command, which parses and prints; the work is below."""
