"""What is kept in Secrets and ConfigMaps: bootstrap tokens and their uses, cluster-info, ledger, recovery keys."""
