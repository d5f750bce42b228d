"""One file per controller; each a reconciler that is given a name and makes the world fit it."""
