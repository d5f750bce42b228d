"""Encryption at rest: a store over any other, by Kubernetes' EncryptionConfiguration."""
