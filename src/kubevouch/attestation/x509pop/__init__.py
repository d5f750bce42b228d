"""Possession of the key of a certificate from the factory, or from a PKI that was there before the cluster."""
