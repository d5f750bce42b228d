"""What is asked before a request is approved by itself, beyond whether its kind is known."""
