"""The object model: declarations, codecs, selectors, patches, errors. Pure functions, no I/O."""
