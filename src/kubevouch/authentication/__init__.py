"""Who is asking: one authenticator a credential, tried in a fixed order."""
