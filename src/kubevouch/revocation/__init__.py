"""Which identities count no more although their certificates are valid: pure sets, and how they are stored."""
