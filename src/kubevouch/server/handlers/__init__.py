"""One file a verb: from a routed request to a result."""
