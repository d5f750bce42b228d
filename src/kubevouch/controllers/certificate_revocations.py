"""certificate-revocation-controller: finds what each revocation reaches, and writes down that it came and went.

An API server of kubevouch refuses what a CertificateRevocation names by itself, and needs nobody for it. Whether a
server that is not ours refuses it is asked of that server, and told as the condition ``InForce``. What only the ledger,
the requests and the records know, who has asked for a certificate and which token has let a machine in, is looked up
here and put into the status, from where the API server, CRLs and the deny webhook take it; again as soon as more is
known. Source: kubevouch's own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CERTIFICATES_FOUND,
    ENDED,
    IN_FORCE,
    MAX_NUMBERS,
    CertificateRevocation,
    CertificateRevocationStatus,
    IssuedNumbers,
    RevocationTargets,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.cache.informer import ChangeHandler
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result
from kubevouch.controllers.known_certificates import ClusterCertificates, informers_of, known_to, ledger_alone
from kubevouch.controllers.revocation_enforcement import Enforcement, ObservedEnforcement, OwnServerEnforcement
from kubevouch.ledger import entries
from kubevouch.ledger.entries import REVOKED, Entry, Query
from kubevouch.ledger.interface import Ledger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.policy.standing_decisions import StandingDecisions
from kubevouch.revocation.enforcement import Reach
from kubevouch.revocation.known import KnownCertificate, KnownCertificates, asked_at, counted, fingerprint_of
from kubevouch.revocation.lost_revocations import LIFTED
from kubevouch.revocation.reach import numbers_of, reached
from kubevouch.revocation.revocations import Revocations, Revoked, mark_in, revoked_by
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.certificate_revocations")

NAME = wellknown.CERTIFICATE_REVOCATION_CONTROLLER
REVOKED_EVENT, LIFTED_EVENT = "CertificatesRevoked", "RevocationLifted"
MAX_LISTED = MAX_NUMBERS
"""Certificates that a status lists. An API server of ours takes 20,000 elements; with the targets they have to fit."""
# What was deleted while no controller ran.
_WHILE_AWAY = Request("")
# What a server that is not ours refuses.
_LOOK = Request("", resource="enforcement")
# What the cluster's objects have told since.
_HEARD = Request("", resource="certificates")
_MOST = 100_000
_EVER = dt.datetime.min.replace(tzinfo=dt.UTC)
# What is issued later may be reached, too: by a key, by a moment that is yet to come.
_RESYNC_SECONDS, _ENDS_SECONDS = 300.0, 86400.0


class RevocationReconciler:
    """There is one request for each object, and one that looks for those that are gone.

    Args:
        stands_by: another server leads: what the ledger of this one knows is added, and nothing else done.
        enforcement: who says whether a revocation is in force; an API server of ours unless it is given.
        cluster: what the cluster's objects tell; None has only the ledger.
        known: all that is known of certificates; only the ledger unless given.
    """

    def __init__(
        self,
        client: Client,
        revocations: Revocations,
        ledger: Ledger,
        clock: Clock,
        events: EventRecorder,
        *,
        decisions: StandingDecisions | None = None,
        stands_by: bool = False,
        enforcement: Enforcement | None = None,
        cluster: ClusterCertificates | None = None,
        known: KnownCertificates | None = None,
    ) -> None:
        self._stands_by = stands_by
        self._enforcement = enforcement or OwnServerEnforcement()
        self._cluster = cluster
        self._known = known or ledger_alone(ledger)
        self._decisions = decisions or StandingDecisions()
        self._client = client
        self._revocations = revocations
        self._ledger = ledger
        self._clock = clock
        self._events = events

    async def reconcile(self, request: Request) -> Result:
        if request == _HEARD:
            if self._cluster is not None:
                await self._cluster.read()
            return DONE
        if self._stands_by and self._revocations.object(request.name) is None:
            return DONE
        if request == _LOOK:
            observed = self._enforcement
            return Result(await observed.look()) if isinstance(observed, ObservedEnforcement) else DONE
        if request == _WHILE_AWAY:
            for each in await self._ledger.find(Query(kinds=frozenset({REVOKED}), limit=_MOST)):
                if self._revocations.object(each.entry.request) is None:
                    await self._lifted(each.entry.request)
            return DONE
        obj = self._revocations.object(request.name)
        if obj is None:
            self._enforcement.forget(request.name)
            await self._lifted(request.name)
            return DONE
        if not self._stands_by:
            await self._recorded(obj)
        if await self._status(obj) != obj.status:
            await self._write(request.name)
        targets = obj.spec.revoked
        named = msgspec.structs.replace(targets, serials=[], certificates=[], issued_until=None)
        # What is named one by one was issued already: it can only end.
        return Result(_ENDS_SECONDS if named == RevocationTargets() else _RESYNC_SECONDS)

    async def _write(self, name: str) -> None:
        try:
            # What was told of it has no resourceVersion: it came from the store. And others write to it, too.
            current = await self._client.get(CERTIFICATE_REVOCATIONS, name)
            changed = msgspec.structs.replace(current, status=await self._status(current))
            await self._client.update(CERTIFICATE_REVOCATIONS, changed, subresource="status")
        except APIStatusError as err:
            if err.code != 404:
                raise

    async def _status(self, obj: CertificateRevocation) -> CertificateRevocationStatus:
        now, revoked = self._clock.now(), revoked_by(obj)
        known = await reached(self._known, obj.spec.revoked, revoked.until, now=now)
        found = [each.entry for each in known]
        elsewhere = await self._elsewhere(obj, found, revoked)
        listed = found[:MAX_LISTED]
        ends = [entry.not_after for entry in found if entry.not_after is not None]
        if elsewhere.until is not None:
            ends.append(elsewhere.until.datetime())
        serials = _together(elsewhere.serials, numbers_of(_not_named(listed, obj.spec.revoked)))
        certificates = list(dict.fromkeys((*elsewhere.certificates, *_fingerprints(listed))))[:MAX_LISTED]
        if self._stands_by:
            # Who leads says what that means.
            if set(certificates) <= set(obj.status.certificates):
                return obj.status
            certificates = list(dict.fromkeys((*obj.status.certificates, *certificates)))[:MAX_LISTED]
            return msgspec.structs.replace(
                obj.status, matched=len(certificates), until=Time.of(max(ends)),
                serials=_together(obj.status.serials, serials), certificates=certificates,
            )  # fmt: skip
        matched = len(found) + len(elsewhere.certificates)
        if elsewhere.certificates:
            # Another ledger may know more than the status lists.
            matched = max(matched, obj.status.matched)
        reach = Reach(
            obj.metadata.name, obj.spec.revoked, matched, found, certificates,
            max(ends) if ends else None,
        )  # fmt: skip
        former = next((each for each in obj.status.conditions if each.type == IN_FORCE), None)
        conditions = [self._enforcement.condition(reach, former), _found(known, matched, self._known)]
        if not found and obj.status.until is not None and obj.status.until.datetime() <= now and _ends(obj):
            ended = "every certificate that it was about has ended"
            conditions.append(Condition(type=ENDED, status=wellknown.CONDITION_TRUE, reason="Expired", message=ended))
        return CertificateRevocationStatus(
            observed_generation=obj.metadata.generation,
            matched=matched,
            until=Time.of(max(ends)) if ends else obj.status.until,
            serials=serials,
            certificates=certificates,
            conditions=[_since(each, obj, Time.of(now)) for each in conditions],
        )

    async def _elsewhere(
        self, obj: CertificateRevocation, found: Sequence[Entry], revoked: Revoked
    ) -> CertificateRevocationStatus:
        """What the status has of certificates that nothing here knows, and something elsewhere did.

        Each server that has led has a ledger of its own, and requests are deleted. What was found once is revoked,
        whoever leads now.
        """
        status = obj.status
        if _are_known(status, found):
            return CertificateRevocationStatus()
        # Also those that have ended, which need not be listed any more.
        known_ever = await reached(self._known, obj.spec.revoked, revoked.until, now=_EVER)
        own = [each.entry for each in known_ever]
        known, numbers = set(_fingerprints(own)), {(entry.issuer_key, entry.serial) for entry in own}
        serials = [
            IssuedNumbers(issuer=group.issuer, numbers=left)
            for group in status.serials
            if (left := [number for number in group.numbers if (group.issuer, number) not in numbers])
        ]
        certificates = [each for each in status.certificates if each not in known]
        until = status.until if serials or certificates else None
        return CertificateRevocationStatus(until=until, serials=serials, certificates=certificates)

    # -------------------------------------------------------------- what is told

    async def _recorded(self, obj: CertificateRevocation) -> None:
        if await self._ledger.find(Query(kinds=frozenset({REVOKED}), uid=obj.metadata.uid, limit=1)):
            return
        revoked = revoked_by(obj)
        await self._append(obj.metadata.name, obj.metadata.uid, revoked, obj.spec.reason, obj.spec.requested_by)
        log.warning("certificates are revoked", name=revoked.name, reason=revoked.reason, why=revoked.message)
        await self._tell(obj.metadata.name, obj.metadata.uid, WARNING, REVOKED_EVENT, f"{revoked.reason}: {revoked}")

    async def _lifted(self, name: str) -> None:
        """Deleted, however long ago: nobody makes a revocation weaker unseen."""
        if not self._decisions.has_loaded:
            raise IgnorableError("it is not known yet what the server has lost")
        if (CERTIFICATE_REVOCATIONS.plural, name) in self._decisions.held:
            # Nobody has taken it back: it is put back.
            return
        query = Query(kinds=frozenset({REVOKED}), request=name, newest_first=True, limit=1)
        former = await self._ledger.find(query)
        if not former or former[0].entry.reason == LIFTED:
            return
        entry = former[0].entry
        now = self._clock.now()
        await self._append(name, entry.uid, Revoked(name, LIFTED, now, now, f"was {entry.reason}"), LIFTED, "")
        log.warning("a revocation is gone", name=name, was=entry.reason)
        await self._tell(name, entry.uid, NORMAL, LIFTED_EVENT, f"what it had revoked ({entry.reason}) counts again")

    async def _append(self, name: str, uid: str, revoked: Revoked, reason: str, by: str) -> None:
        await self._ledger.append(
            Entry(
                kind=REVOKED,
                at=self._clock.now(),
                request=name,
                uid=uid,
                requester=by[: entries.MAX_TEXT],
                reason=reason,
                message=revoked.message,
                created=revoked.at,
            )
        )

    async def _tell(self, name: str, uid: str, kind: str, reason: str, message: str) -> None:
        resource = CERTIFICATE_REVOCATIONS
        about = ObjectReference(kind=resource.kind, name=name, uid=uid, api_version=resource.api_version)
        await self._events.record(about, kind, reason, message)


def _are_known(status: CertificateRevocationStatus, found: Sequence[Entry]) -> bool:
    """Whether a status has nothing but what ``found`` has."""
    numbers = {(entry.issuer_key, entry.serial) for entry in found}
    listed = {(group.issuer, number) for group in status.serials for number in group.numbers}
    return listed <= numbers and set(status.certificates) <= set(_fingerprints(found))


def _fingerprints(found: Sequence[Entry]) -> list[str]:
    """Of those of which the certificate itself is known."""
    return [fingerprint_of(each) for each in found if each.certificate]


def _found(known: Sequence[KnownCertificate], matched: int, everything: KnownCertificates) -> Condition:
    """What is known of what the revocation names, and from where: nothing found is no success."""
    if not matched:
        message = f"no certificate is known that it reaches and that has not ended; looked at: {everything.told()}"
        return Condition(
            type=CERTIFICATES_FOUND, status=wellknown.CONDITION_FALSE, reason="NothingFound", message=message
        )
    told = [counted(known)] if known else []
    if matched > len(known):
        told.append(f"{matched - len(known)} known from the status alone")
    return Condition(type=CERTIFICATES_FOUND, status=wellknown.CONDITION_TRUE, reason="Found", message="; ".join(told))


def _together(one: Sequence[IssuedNumbers], other: Sequence[IssuedNumbers]) -> list[IssuedNumbers]:
    found: dict[str, dict[str, None]] = {}
    for group in (*one, *other):
        found.setdefault(group.issuer, {}).update(dict.fromkeys(group.numbers))
    return [IssuedNumbers(issuer=issuer, numbers=list(found[issuer])) for issuer in sorted(found)]


def _not_named(found: Sequence[Entry], targets: RevocationTargets) -> list[Entry]:
    """Those whose serial numbers the object does not have already."""
    named = {(group.issuer, number) for group in targets.serials for number in group.numbers}
    return [entry for entry in found if (entry.issuer_key, entry.serial) not in named]


def _ends(obj: CertificateRevocation) -> bool:
    """A key is revoked for good: it may be certified anew."""
    return not obj.spec.revoked.keys


def _since(condition: Condition, obj: CertificateRevocation, now: Time) -> Condition:
    known = next((each for each in obj.status.conditions if each.type == condition.type), None)
    same = known is not None and known.status == condition.status
    moment = known.last_transition_time if known is not None and same else now
    generation = obj.metadata.generation
    return msgspec.structs.replace(condition, last_transition_time=moment, observed_generation=generation)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    revocations = context.revocations
    events = EventRecorder(client, context.clock, NAME)

    def look_again(name: str) -> None:
        controller.queue.add(Request(name))

    observed = None
    if not context.is_own_server:
        observed = ObservedEnforcement(client, context.clock, look_again, lambda: controller.queue.add(_LOOK))

    def heard() -> None:
        controller.queue.add(_HEARD)

    def noted(entry: Entry) -> None:
        for name in revocations.about(mark_in(entry), entry.requester, asked_at(entry)):
            controller.queue.add(Request(name))

    cluster = ClusterCertificates(heard, noted)
    controller = QueueController(
        NAME,
        RevocationReconciler(
            client,
            revocations,
            context.ledger,
            context.clock,
            events,
            decisions=context.decisions,
            stands_by=context.stands_by,
            enforcement=observed,
            cluster=cluster,
            known=known_to(context, cluster),
        ),
        context.clock,
        # Whoever waits for a webhook's answer keeps no revocation waiting.
        workers=1 if observed is None else 2,
    )
    told: tuple[Callable[[Any, bool], None], ...] = (cluster.request, cluster.record, cluster.identity)
    for informer, changed in zip(informers_of(context, client), told, strict=True):
        controller.follow(informer, ChangeHandler(changed), resync_seconds=0)
    known: dict[str, Revoked] = {}

    def objects_changed() -> None:
        current = {each.name: each for each in revocations}
        for name in known.keys() | current.keys():
            # The same object as long as nothing but counts has changed.
            if known.get(name) is not current.get(name):
                controller.queue.add(Request(name))
        known.clear()
        known.update(current)

    revocations.on_change(objects_changed)
    objects_changed()
    controller.queue.add(_WHILE_AWAY)
    if observed is not None:
        controller.queue.add(_LOOK)
    return controller
