"""One token for all tests of signers: a process initializes a PKCS#11 module once."""

from softhsm import softhsm

__all__ = ["softhsm"]
