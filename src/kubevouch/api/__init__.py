"""The API groups: one module per group and version with its types, defaults, validation and conversions."""
