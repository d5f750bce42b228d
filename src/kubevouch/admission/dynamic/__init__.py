"""Admission that objects configure: webhooks and policies."""
