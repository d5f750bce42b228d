"""A key that nobody vouches for: who shows it first under a name has the name."""
