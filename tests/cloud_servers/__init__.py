"""Servers that behave like those of clouds: metadata services and APIs, with signatures by keys of tests."""
