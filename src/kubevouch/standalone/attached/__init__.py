"""Controllers in a process of their own, against API servers that run elsewhere."""
