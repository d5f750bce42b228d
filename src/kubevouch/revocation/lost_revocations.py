"""Which revocations the ledger knows and the cluster has lost: an older store brings back what they had locked out."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kubevouch.ledger.entries import REVOKED, Entry

LIFTED = "removeFromCRL"
"""The reason of an entry that says that a revocation is no more (RFC 5280 section 5.3.1)."""


def lost_revocations(entries: Iterable[Entry], present: Container[str]) -> list[Entry]:
    """The newest entry of each revocation that was not lifted and has no object, in the order of the ledger.

    Args:
        entries: of the ledger, in its order; other kinds are left out.
        present: the names of the CertificateRevocations that there are.
    """
    newest: dict[str, Entry] = {}
    for entry in entries:
        if entry.kind == REVOKED:
            newest.pop(entry.request, None)
            newest[entry.request] = entry
    return [entry for name, entry in newest.items() if entry.reason != LIFTED and name not in present]
