"""From one store to another: what differs, and carrying it out until nothing does."""
