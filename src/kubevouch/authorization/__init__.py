"""May they: authorizers over the attributes of a request."""
