"""Whether what was revoked is refused, as the API server of this client answers now."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import IN_FORCE, CertificateRevocation
from kubevouch.api.meta_v1 import Condition
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers import revocation_enforcement
from kubevouch.ledger.entries import ISSUED, Entry, with_certificate
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.enforcement import (
    HOLDER_UNKNOWN,
    NOT_ASKED,
    NOTHING_ENFORCES,
    OWN_SERVER,
    REFUSED,
    Reach,
)
from kubevouch.revocation.known import KnownCertificates, fingerprint_of
from kubevouch.revocation.node_revocation import is_of_node
from kubevouch.revocation.reach import reached
from kubevouch.revocation.revocations import revoked_by
from kubevouch.util.clock import Clock

PATIENCE_SECONDS = 10.0
"""How long a webhook and the controllers have, at most, to hear of what was revoked."""
_STEP_SECONDS = 0.5


class InForce(msgspec.Struct, frozen=True):
    """What was seen of one revocation.

    Args:
        status, reason, message: as in the condition ``InForce``.
        by_own_server: the API server is ours, and refuses by itself.
        in_object: the condition that the object has; None while nobody has written one.
    """

    name: str
    status: str
    reason: str
    message: str
    by_own_server: bool = False
    in_object: Condition | None = None

    @property
    def is_true(self) -> bool:
        return self.status == wellknown.CONDITION_TRUE

    @property
    def written(self) -> str:
        """What the object says, for people."""
        if self.in_object is None:
            return "not written; kubevouch controllers writes it"
        return f"{IN_FORCE}={self.in_object.status} ({self.in_object.reason})"

    @property
    def is_settled(self) -> bool:
        """Whether the object says the same, or cannot: the certificate is known to this client alone."""
        if self.by_own_server:
            return True
        return self.in_object is not None and (
            self.in_object.status == self.status or self.in_object.reason == HOLDER_UNKNOWN
        )

    def tree(self) -> dict[str, str]:
        """The stable form for scripts."""
        return {"name": self.name, "status": self.status, "reason": self.reason, "message": self.message}


def written(obj: CertificateRevocation) -> InForce:
    """What the object says of itself; Unknown while nobody has written it."""
    condition = _condition(obj)
    if condition is None:
        message = "no controller has looked at it: kubevouch controllers does, and kubevouch up"
        return InForce(obj.metadata.name, wellknown.CONDITION_UNKNOWN, NOT_ASKED, message)
    return _told(obj, condition)


async def look(
    client: Client,
    obj: CertificateRevocation,
    issued: KnownCertificates,
    clock: Clock,
    shown: Sequence[Certificate] = (),
) -> InForce:
    """Ask the API server about some of those whom the revocation reaches.

    Who may not ask that gets what the object says.

    Args:
        shown: certificates that this client has, whether or not anything else knows them.

    Raises:
        APIStatusError, TransportError, LedgerError
    """
    if await revocation_enforcement.is_own(client):
        return _told(obj, await revocation_enforcement.look(client, _reach(obj, []), clock), by_own_server=True)
    known = await reached(issued, obj.spec.revoked, revoked_by(obj).until, now=clock.now())
    found = [each.entry for each in known]
    digests = {fingerprint_of(each) for each in found if each.certificate}
    meant = (each for each in shown if each.fingerprint().hex() in obj.spec.revoked.certificates)
    found += [with_certificate(Entry(kind=ISSUED, at=each.not_before), each)
              for each in meant if each.fingerprint().hex() not in digests]  # fmt: skip
    reach = _reach(obj, found)
    try:
        condition = await revocation_enforcement.look(client, reach, clock)
    except APIStatusError as err:
        if err.code != 403:
            raise
        return written(obj)
    return _told(obj, condition)


async def settled(
    client: Client,
    made: Sequence[CertificateRevocation],
    issued: KnownCertificates,
    clock: Clock,
    shown: Sequence[Certificate] = (),
) -> list[InForce]:
    """What holds once webhooks and controllers have had time to hear of it.

    It ends as soon as the server answers what the object says, and after :data:`PATIENCE_SECONDS` in any case. For
    ``shown`` see :func:`look`.

    Raises:
        APIStatusError, TransportError, LedgerError
    """
    end = clock.monotonic() + PATIENCE_SECONDS
    while True:
        told = []
        for each in made:
            current = await stored.find(client, CERTIFICATE_REVOCATIONS, each.metadata.name)
            told.append(await look(client, current or each, issued, clock, shown))
        if all(each.is_settled for each in told) or clock.monotonic() >= end:
            return told
        await clock.sleep(_STEP_SECONDS)


async def of_node(client: Client, node_name: str, clock: Clock, *, banned: bool = False) -> list[InForce]:
    """Whether the hold is in force that locks out or bans a node, as :func:`settled` says.

    Raises:
        APIStatusError, TransportError
    """
    if await revocation_enforcement.is_own(client):
        # By the lock-out, too, with or without an object.
        name, told = f"node {node_name}", OWN_SERVER.about
        return [InForce(name, wellknown.CONDITION_TRUE, REFUSED, told, by_own_server=True)]
    try:
        everything = (await list_all(client, CERTIFICATE_REVOCATIONS, options=PAGES)).items
    except APIStatusError as err:
        if err.code != 404:
            raise
        message = "this cluster has no kind CertificateRevocation, and nothing refuses the node's certificates"
        return [InForce(f"node {node_name}", wellknown.CONDITION_FALSE, NOTHING_ENFORCES, message)]
    made = [each for each in everything if is_of_node(each, node_name, banned=banned)]
    if not made:
        message = "the node has no revocation that could be asked about"
        return [InForce(f"node {node_name}", wellknown.CONDITION_UNKNOWN, NOT_ASKED, message)]
    newest = sorted(made, key=lambda each: str(each.metadata.creation_timestamp))[-1:]
    return await settled(client, newest, KnownCertificates.of(MemoryLedger()), clock)


def _told(obj: CertificateRevocation, condition: Condition, *, by_own_server: bool = False) -> InForce:
    return InForce(
        obj.metadata.name, condition.status, condition.reason, condition.message, by_own_server, _condition(obj)
    )


def _condition(obj: CertificateRevocation) -> Condition | None:
    return next((each for each in obj.status.conditions if each.type == IN_FORCE), None)


def _reach(obj: CertificateRevocation, found: Sequence[Entry]) -> Reach:
    ends = [each.not_after for each in found if each.not_after is not None]
    if obj.status.until is not None:
        ends.append(obj.status.until.datetime())
    until = max(ends) if ends else None
    matched = max(len(found), obj.status.matched)
    return Reach(obj.metadata.name, obj.spec.revoked, matched, found, obj.status.certificates, until)
