"""Whether what is revoked is refused: what the objects say, and of some what the API server answers now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import ENDED, CertificateRevocation
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers.revocation_enforcement import is_own
from kubevouch.doctor.findings import Code, Finding, argument
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.phases.revocation_enforcement import InForce, look, written
from kubevouch.revocation.enforcement import HOLDER_UNKNOWN
from kubevouch.revocation.known import KnownCertificates
from kubevouch.util.clock import Clock
from kubevouch.wellknown import CONDITION_TRUE

_ASKED = 5
"""Of those that say that they are in force, the newest: a few questions each."""


def standing(revocations: Iterable[CertificateRevocation]) -> list[CertificateRevocation]:
    """Those that may have a certificate left, the newest first."""
    left = [
        each for each in revocations
        if not any(it.type == ENDED and it.status == CONDITION_TRUE for it in each.status.conditions)
    ]  # fmt: skip
    return sorted(left, key=lambda each: str(each.metadata.creation_timestamp), reverse=True)


def judge(told: Iterable[InForce]) -> Iterator[Finding]:
    """``told``: what each says, or what the server has answered about it."""
    for each in told:
        if not each.is_true:
            fix = f"kubevouch revoke show {argument(each.name)}"
            cause = f"revocation {each.name}, {each.reason}: {each.message}"
            yield Code.REVOCATION_NOT_ENFORCED.found(cause, fix)


async def examine(client: Client, clock: Clock) -> list[Finding]:
    """Nothing for a server of ours, which refuses by itself. Raises APIStatusError, TransportError."""
    try:
        revocations = standing((await list_all(client, CERTIFICATE_REVOCATIONS, options=PAGES)).items)
    except APIStatusError as err:
        if err.code != 404:
            raise
        return []  # the kind is not installed there
    if not revocations or await is_own(client):
        return []
    told = [written(each) for each in revocations]
    claimed = [number for number, each in enumerate(told) if each.is_true][:_ASKED]
    for number in claimed:
        seen = await look(client, revocations[number], KnownCertificates.of(MemoryLedger()), clock)
        # The controllers may know the certificate, of which the status has no more than the fingerprint.
        if seen.reason != HOLDER_UNKNOWN:
            told[number] = seen
    return list(judge(told))
