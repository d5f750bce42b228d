"""How a write changes an object: patches, and who owns which field afterwards."""
