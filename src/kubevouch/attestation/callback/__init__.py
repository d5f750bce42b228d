"""An answer from the address at which a machine is known: a token that was stolen from it answers from elsewhere."""
