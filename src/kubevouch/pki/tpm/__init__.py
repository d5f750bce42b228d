"""TPM 2.0 to the byte: structures, names, credentials, quotes, event logs and endorsement certificates; no device."""
