"""Structural schemas of custom resources: what they prune, fill in, refuse, merge and publish; compiled once."""
