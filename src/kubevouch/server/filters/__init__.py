"""The links of the handler chain, one file each."""
