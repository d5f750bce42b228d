"""What a deny list has to have: the fingerprints of all that is revoked, as far as anything is known of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import ENDED, CertificateRevocation
from kubevouch.phases.deny_webhook_config import fingerprints_of
from kubevouch.phases.known_certificates import Issued
from kubevouch.revocation.known import fingerprint_of
from kubevouch.revocation.reach import reached
from kubevouch.revocation.revocations import revoked_by


class DenyList(msgspec.Struct, frozen=True):
    """What a deny list refuses.

    Args:
        empty: the revocations of which no certificate is known, although they are about some that were issued.
        later: those that may reach some yet: of keys, or of a moment that is yet to come.
    """

    fingerprints: tuple[str, ...]
    revocations: int
    empty: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


async def deny_list(issued: Issued, objects: Iterable[CertificateRevocation], *, now: dt.datetime) -> DenyList:
    """All that is known of what ``objects`` revoke: what they name, what a controller found, and what is found now.

    Raises LedgerError.
    """
    fingerprints: set[str] = set()
    empty: list[str] = []
    later: list[str] = []
    count = 0
    for obj in objects:
        count += 1
        targets = obj.spec.revoked
        known = await reached(issued.ledger, targets, revoked_by(obj).until, now=now)
        found = {*fingerprints_of([obj]), *(fingerprint_of(each.entry) for each in known if each.entry.certificate)}
        fingerprints |= found
        if not found and not _has_ended(obj):
            (later if _may_reach_later(obj, now) else empty).append(obj.metadata.name)
    return DenyList(tuple(sorted(fingerprints)), count, tuple(empty), tuple(later))


def _has_ended(obj: CertificateRevocation) -> bool:
    return any(each.type == ENDED and each.status == wellknown.CONDITION_TRUE for each in obj.status.conditions)


def _may_reach_later(obj: CertificateRevocation, now: dt.datetime) -> bool:
    """Whether it names keys alone, or a moment that is yet to come: of what is not issued nothing can be known."""
    targets = obj.spec.revoked
    ends = [each.until.datetime() for each in targets.periods if each.until is not None]
    names = bool(targets.users or targets.nodes or targets.requesters or targets.tokens)
    if (names and revoked_by(obj).until > now) or any(each > now for each in ends):
        return True
    return bool(targets.keys) and not (names or targets.serials or targets.periods)
