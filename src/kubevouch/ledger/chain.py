"""How an entry is tied to all before it. No I/O.

Two structures over the same bytes. The chain gives every entry a hash that nobody can keep who changes, takes out or
swaps an entry before it, so that the first wrong entry is named. The Merkle tree (``proofs``) shows to whom has only a
checkpoint that an entry is in the ledger, and that a later ledger goes on where an earlier one ended.
"""

from __future__ import annotations

import hashlib

# RFC 9162 section 2.1.1 has 0 for leaves and 1 for nodes: what is hashed for one purpose is nothing for another.
_LINK, _BEGINNING = b"\x02", b"\x03"


def beginning(origin: str) -> bytes:
    """What the first entry is tied to: entries of one ledger are none of another."""
    return hashlib.sha256(_BEGINNING + origin.encode()).digest()


def link(previous: bytes, leaf: bytes) -> bytes:
    """The hash of the entry whose leaf of the tree is ``leaf``, behind one with the hash ``previous``."""
    return hashlib.sha256(_LINK + previous + leaf).digest()
