"""A TPM for all tests of a process."""

from software_tpm import manufacturer, tpm

__all__ = ["manufacturer", "tpm"]
