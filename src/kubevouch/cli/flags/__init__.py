"""Flags that several commands share, or that are many: what they are called and what they become."""
