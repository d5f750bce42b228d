"""Resources of the core group, one file each."""
