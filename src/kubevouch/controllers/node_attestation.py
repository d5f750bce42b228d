"""node-attestation-controller: asks machines what only the right one can answer, and clears questions away.

A challenge lasts two minutes. One that a request answers, which came before its end, is kept until that request is
decided: it may have to wait for its turn, and who is stopped in between finds it again. Source: kubevouch's own; the
protocol is that of docs/attestation/README.md.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.admission.attestation_challenge_budget import OpenChallenges
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import (
    READY,
    REFUSED,
    AttestationChallenge,
    AttestationChallengeStatus,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.api.meta_v1 import Condition
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import AttestationError, Challenge, Random, RefusedEvidenceError, UnavailableError
from kubevouch.client.cache.informer import ChangeHandler
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.csr_approving import is_open
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.controllers.node_identities import IdentityKeeper
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.machinery.text.times import Time
from kubevouch.pki.policy import attestation_provider
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.node_attestation")

NAME = wellknown.NODE_ATTESTATION_CONTROLLER
LASTS = dt.timedelta(minutes=2)
NONCE_BYTES = 32
MAX_CONTENT = 16 << 10
"""Octets that a method may ask with, and remember: a machine chooses some of them."""
CHALLENGE_INDEX, UID_INDEX = "challenge", "uid"
WORKERS = 8
_KEPT_SECONDS = 30.0
_NAMES = "nodeidentities"


class ChallengeMaker:
    """One request for each challenge. Args: ``random``: the nonces."""

    def __init__(
        self,
        client: Client,
        challenges: Lister[AttestationChallenge],
        csrs: Lister[CertificateSigningRequest],
        attestation: Attestation,
        clock: Clock,
        unanswered: OpenChallenges,
        random: Random = secrets.token_bytes,
    ) -> None:
        self._client = client
        self._challenges = challenges
        self._csrs = csrs
        self._attestation = attestation
        self._clock = clock
        self._unanswered = unanswered
        self._random = random

    async def reconcile(self, request: Request) -> Result:
        challenge = self._challenges.get(request.name)
        if challenge is None:
            return DONE
        now = self._clock.now()
        left = (ends_at(challenge, now) - now).total_seconds()
        if left < 0:
            if self._is_awaited(challenge, now):
                return Result(requeue_after=_KEPT_SECONDS)
            await self._delete(challenge)
            return DONE
        if not challenge.status.conditions:
            await self._make_room(challenge.spec.requester, now)
            if challenge.metadata.name not in self._unanswered.objects:
                return DONE
            await self._ask(challenge, now)
        # A second later: whoever has asked in its last moment counts.
        return Result(requeue_after=left + 1.0)

    def _is_awaited(self, challenge: AttestationChallenge, now: dt.datetime) -> bool:
        """Whether a request that nobody has decided answers it, and has come in time: it may wait for its turn."""
        used_by, name, ends = challenge.status.used_by, challenge.metadata.name, ends_at(challenge, now)
        if used_by:
            return any(map(is_open, self._csrs.by_index(UID_INDEX, used_by)))
        named = filter(is_open, self._csrs.by_index(CHALLENGE_INDEX, name))
        came = (each.metadata.creation_timestamp for each in named)
        return any(each is not None and each.datetime() <= ends for each in came)

    async def _make_room(self, requester: str, now: dt.datetime) -> None:
        """Delete what is too much of one requester: the oldest of its largest source that no request answers."""
        unanswered = self._unanswered
        while unanswered.are_too_many(requester):
            _, names = unanswered.objects.largest_source(requester)
            for name in names:
                found = self._challenges.get(name)
                if found is None or not self._is_awaited(found, now):
                    break
            else:
                # Requests answer all of them, and those have budgets of their own.
                return
            unanswered.objects.discard(name)
            if found is not None:
                await self._delete(found)

    async def _ask(self, challenge: AttestationChallenge, now: dt.datetime) -> None:
        """Raises :class:`IgnorableError` while who has to be asked is away."""
        spec = challenge.spec
        verifier = self._attestation.verifiers.get(spec.provider)
        if verifier is None:
            accepted = ", ".join(self._attestation.verifiers)
            status = _refused("Provider", f"{spec.provider} is no method that counts here, but {accepted}", now)
        elif spec.version not in verifier.versions:
            status = _refused("Version", f"expected {', '.join(verifier.versions)}, got {spec.version}", now)
            status = msgspec.structs.replace(status, supported_versions=list(verifier.versions))
        else:
            try:
                asked = verifier.challenge(spec.opening, now, self._random)
                if len(asked.content) + len(asked.state) > MAX_CONTENT:
                    raise RefusedEvidenceError("size", f"{spec.provider} asks with more than {MAX_CONTENT} octets")
                status = self._asked(asked, now)
            except RefusedEvidenceError as err:
                status = _refused(err.step, str(err), now)
            except UnavailableError as err:
                raise IgnorableError(str(err)) from err
            except AttestationError as err:
                status = _refused("Failed", str(err), now)
        await self._client.update(
            ATTESTATION_CHALLENGES, msgspec.structs.replace(challenge, status=status), subresource="status"
        )

    def _asked(self, asked: Challenge, now: dt.datetime) -> AttestationChallengeStatus:
        return AttestationChallengeStatus(
            nonce=self._random(NONCE_BYTES),
            content=asked.content,
            secret_digest=asked.secret_digest,
            state=asked.state,
            expires_at=Time.of(now + LASTS),
            conditions=[_condition(READY, "Asked", "answer it in a request for a certificate", now)],
        )

    async def _delete(self, challenge: AttestationChallenge) -> None:
        options = DeleteOptions(preconditions=Preconditions(uid=challenge.metadata.uid))
        try:
            await self._client.delete(ATTESTATION_CHALLENGES, challenge.metadata.name, options=options)
        except APIStatusError as err:
            if err.reason not in (Reason.NOT_FOUND, Reason.CONFLICT):
                raise


class _Both:
    """Challenges, and by ``resource`` names of nodes."""

    def __init__(self, maker: ChallengeMaker, keeper: IdentityKeeper) -> None:
        self._maker = maker
        self._keeper = keeper

    async def reconcile(self, request: Request) -> Result:
        return await (self._keeper if request.resource == _NAMES else self._maker).reconcile(request)


class _NodeChanges:
    """An event handler."""

    def __init__(self, add: Callable[[Request], None]) -> None:
        self._add = add

    def on_add(self, obj: Node, *, initial: bool) -> None:  # noqa: ARG002 - a start is no different
        self._add(Request(obj.metadata.name, resource=_NAMES))

    def on_update(self, old: Node, new: Node) -> None:
        if _of_interest(old) != _of_interest(new):
            self._add(Request(new.metadata.name, resource=_NAMES))

    def on_delete(self, obj: Node, *, missed: bool) -> None:  # noqa: ARG002
        self._add(Request(obj.metadata.name, resource=_NAMES))


def _of_interest(node: Node) -> object:
    meta = node.metadata
    return meta.uid, meta.deletion_timestamp, meta.labels, node.spec.taints


def ends_at(challenge: AttestationChallenge, now: dt.datetime) -> dt.datetime:
    """When it counts no more; of one that is not asked yet, when nobody waits for it any longer."""
    ends, created = challenge.status.expires_at, challenge.metadata.creation_timestamp
    if ends is not None:
        return ends.datetime()
    return (now if created is None else created.datetime()) + LASTS


def _refused(reason: str, message: str, now: dt.datetime) -> AttestationChallengeStatus:
    return AttestationChallengeStatus(conditions=[_condition(REFUSED, reason, message, now)])


def _condition(kind: str, reason: str, message: str, now: dt.datetime) -> Condition:
    return Condition(
        type=kind, status=wellknown.CONDITION_TRUE, last_transition_time=Time.of(now), reason=reason,
        message=message[:1024],
    )  # fmt: skip


def _named(csr: CertificateSigningRequest) -> Iterable[str]:
    """The challenges that a request answers while nobody has decided it."""
    if not is_open(csr) or not attestation_provider(csr.spec.signer_name):
        return ()
    try:
        proofs = blocks.parse(csr.spec.request or b"")
    except RefusedEvidenceError:
        return ()
    return {each.challenge for each in proofs if each.challenge}


def _uid(csr: CertificateSigningRequest) -> Iterable[str]:
    return (csr.metadata.uid,)


def build(context: Context) -> QueueController | None:
    """None where no method counts."""
    if context.attestation is None:
        return None
    client = context.connect(NAME)
    challenges = context.informers.informer(ATTESTATION_CHALLENGES, client=client)
    csrs = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    csrs.indexer.add_index(UID_INDEX, _uid)
    csrs.indexer.add_index(CHALLENGE_INDEX, _named)
    # Another API server keeps what the requester has written there.
    unanswered = OpenChallenges(trusts_annotations=context.is_own_server)
    challenges.add_handler(
        ChangeHandler(lambda obj, gone: unanswered.changed(obj.metadata.name, None if gone else obj))
    )
    maker = ChallengeMaker(client, challenges.lister, csrs.lister, context.attestation, context.clock, unanswered)
    identities = context.informers.informer(NODE_IDENTITIES, client=client)
    nodes = context.informers.informer(NODES, client=client)
    keeper = IdentityKeeper(client, identities.lister, nodes.lister, context.attestation.config, context.clock)

    def flow(request: Request) -> str:
        """A node of its own, or the requester of a challenge."""
        if request.resource == _NAMES:
            return request.name
        challenge = challenges.lister.get(request.name)
        return "" if challenge is None else challenge.spec.requester

    controller = QueueController(NAME, _Both(maker, keeper), context.clock, workers=WORKERS, flow=flow)

    def changed(challenge: AttestationChallenge) -> Iterable[Request]:
        return (request_of(challenge),)

    def named(obj: NodeIdentity | Node) -> Iterable[Request]:
        return (Request(obj.metadata.name, resource=_NAMES),)

    controller.watch(challenges, on_add=changed, on_update=changed)
    controller.watch(csrs)
    controller.watch(identities, on_add=named, on_update=named)
    # Not of what a heartbeat changes: who it is, and what was put on it here.
    controller.follow(nodes, _NodeChanges(controller.queue.add))
    return controller
