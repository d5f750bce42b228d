"""What a controller knows of a collection without asking: reflector, informer, indexer, lister."""
