"""The Common Expression Language behind one door: compiled once, typed, bounded, and never true by mistake."""
