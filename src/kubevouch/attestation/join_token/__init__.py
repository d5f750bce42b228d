"""A secret by which one machine, named before, comes in once."""
