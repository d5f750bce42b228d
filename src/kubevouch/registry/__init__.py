"""REST storage: what each resource does when it is created, changed, read and deleted."""
