"""Who runs now, who waits, who is sent away: decided without I/O."""
