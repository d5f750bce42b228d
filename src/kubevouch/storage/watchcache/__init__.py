"""The watch cache: the newest state and the recent events of every resource, in memory."""
