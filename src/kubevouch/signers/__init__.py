"""What holds a CA key: one file per way to hold it, and the one function through which any of them issues."""
