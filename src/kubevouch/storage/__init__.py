"""Keys, values and revisions: one narrow store interface, its implementations and the watch cache above them."""
