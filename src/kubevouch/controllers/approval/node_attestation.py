"""Machines that have proven what they are: approved once proof, inventory and the history of the name agree.

The rules are in :mod:`kubevouch.policy.node_attestation` and :mod:`kubevouch.policy.node_identities`; here they are
given what they decide by. What is proven to be wrong is denied, which nobody can take back. What somebody may still say
who could not be asked waits: a cloud that is away, a Machine that is not there yet.

A claim is written before anybody can see the decision, and a certificate is signed only for what the claim grants. Who
is stopped in between comes again with the same request, finds its own claim, and goes on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import structlog

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import READY, AttestationChallenge
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    UnavailableError,
    UnsupportedVersionError,
    Verifier,
)
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import MERGE_PATCH, Client, ListOptions, TransportError
from kubevouch.client.pager import list_all
from kubevouch.client.stored import find
from kubevouch.controllers.approval.interface import RefusedError
from kubevouch.controllers.attestation import Attestation, ClusterID
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.controllers.interface import Context, IgnorableError, ReconcileError, request_of
from kubevouch.controllers.inventory import MachineInventory
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.policy import attestation_provider
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import node_attestation, node_identities
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.inventory import Identity, Machine, current
from kubevouch.policy.node_attestation import NotYetError, RequestRefusedError, Wanted
from kubevouch.policy.node_identities import Asked, IdentityRefusedError
from kubevouch.policy.verdict import MAX_TRACE_BYTES, Outcome, Step, StepResult, Verdict
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.clock import Clock

log = structlog.get_logger("controllers.node_attestation")

T = TypeVar("T")

NAME = "node-attestation"
APPROVED_REASON = "MachineAttested"
DENIED_REASON = "AttestationRefused"
IDENTITY_INDEX = "identity"
KEY_INDEX = "key"
# Proofs that were verified for requests which nobody has decided yet.
_REMEMBERED = 4096


class NodeAttestationApprover:
    """See :class:`kubevouch.controllers.approval.interface.Approver` and ``Bound``: the claim is taken last."""

    name = NAME
    is_outside = False

    def __init__(
        self,
        client: Client,
        attestation: Attestation,
        identities: Lister[NodeIdentity],
        nodes: Lister[Node],
        inventory: MachineInventory,
        clock: Clock,
    ) -> None:
        self._client = client
        self._attestation = attestation
        self._identities = identities
        self._nodes = nodes
        self._inventory = inventory
        self._clock = clock
        self._cluster = ClusterID(client)
        self._events = EventRecorder(client, clock, wellknown.NODE_ATTESTATION_CONTROLLER)
        self._allowance = Allowance(clock)
        # By the UID of the request, which never changes: what it has shown, and what it may be given.
        self._verified: dict[str, tuple[Attested, ...]] = {}
        self._proven: dict[str, Asked] = {}

    def has_loaded(self) -> bool:
        return self._inventory.has_loaded()

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        """See the protocol. An answer uses its challenge up, whatever comes of it."""
        signer = facts.signer_name
        if not node_attestation.is_client(signer) or attestation_provider(signer) not in self._attestation.verifiers:
            return Verdict(Outcome.NO_OPINION, NAME)
        try:
            return await self._judge(csr, facts, request)
        except (RequestRefusedError, RefusedEvidenceError, IdentityRefusedError) as err:
            return await self._refused(csr, facts, err.step, str(err))
        except NotYetError as err:
            return _waits(err.step, str(err), retry=err.retry)
        except UnsupportedVersionError as err:
            await self._tell_versions(csr, err)
            return _waits("version", str(err), retry=False)
        except UnavailableError as err:
            return _waits("unavailable", str(err), retry=True)

    async def _judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        config, now = self._attestation.config, self._clock.now()
        wanted = node_attestation.read(facts, request, config)
        # Before anything is waited for: evidence ages, and a challenge is kept for whoever has answered it.
        proofs = self._verified.get(facts.uid) or await self._verify(csr, wanted, facts, request, now)
        waited = now - facts.created if facts.created is not None else dt.timedelta()
        machines = current(self._named(wanted), now)
        machine = node_attestation.machine_of(wanted, machines, config, waited)
        self._verify_name(wanted, proofs)
        node_attestation.verify_machine(wanted, proofs, facts.key_fingerprint, machines, self._foreign(proofs))
        named = self._identities.get(wanted.node_name)
        claimed = named is not None and node_identities.is_same(proofs, named.status)
        node = self._nodes.get(wanted.node_name)
        vouched = machine is not None and _vouches(machine, proofs)
        node_attestation.verify_node(wanted, node, proofs, claimed=claimed, vouched=vouched)
        group = node_attestation.group_of(config, wanted.node_name, machine, proofs)
        node_attestation.verify_strength(group, proofs)
        seconds = node_attestation.seconds_for(config, group, proofs, now)
        asked = Asked(
            node_name=wanted.node_name, proofs=proofs, key=facts.key_fingerprint, uid=facts.uid,
            requester=facts.username, seconds=seconds, own=wanted.own,
            address=csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, ""),
        )  # fmt: skip
        # Asked again when the name is taken: here it keeps nobody waiting, or using a token up, who has no chance.
        node_identities.decide(asked, named, self._others(asked), now)
        _remember(self._proven, facts.uid, asked)
        shown = ", ".join(f"{each.provider} {each.identity[:128]} ({each.strength})" for each in proofs)
        return Verdict(
            Outcome.APPROVE,
            NAME,
            APPROVED_REASON,
            f"the machine has proven that it is {shown}",
            steps=tuple(_steps(proofs)),
            evidence=_evidence(proofs),
            rules=self._attestation.rules,
        )

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:  # noqa: ARG002
        """Write down to whom the name belongs and what may be signed for it."""
        if not node_attestation.is_client(csr.spec.signer_name):
            return
        asked = self._proven.pop(csr.metadata.uid, None)
        if asked is None:
            raise RefusedError(NAME, DENIED_REASON, "nothing was proven: no other approval counts for this signer")
        try:
            await self._claim(csr, asked)
        except IdentityRefusedError as err:
            text = f"{err.step}: {err}"
            await self._tell(csr, WARNING, DENIED_REASON, text)
            raise RefusedError(NAME, DENIED_REASON, text) from err

    # -------------------------------------------------------------- proofs

    def _evidence(self, csr: CertificateSigningRequest, wanted: Wanted) -> tuple[Evidence, ...]:
        evidence = blocks.parse(csr.spec.request or b"")
        if evidence[0].provider != wanted.provider:
            got = evidence[0].provider
            raise RefusedEvidenceError("provider", f"got evidence of {got} at the signer of {wanted.provider}")
        for each in evidence:
            verifier = self._attestation.verifiers.get(each.provider)
            if verifier is None:
                raise RefusedEvidenceError("provider", f"{each.provider} is no method that counts here")
            if each.version not in verifier.versions:
                raise UnsupportedVersionError(each.provider, each.version, verifier.versions)
        return evidence

    async def _verify(
        self,
        csr: CertificateSigningRequest,
        wanted: Wanted,
        facts: RequestFacts,
        request: CertificateRequest,
        now: dt.datetime,
    ) -> tuple[Attested, ...]:
        evidence = self._evidence(csr, wanted)
        cluster = await self._cluster.get()
        proofs = []
        for each in evidence:
            verifier = self._attestation.verifiers[each.provider]
            challenge, nonce = await self._challenge(facts, each, verifier)
            binding = Binding(request.public_key.canonical_info, cluster, nonce)
            found = await verifier.verify_client(each, binding, challenge, now)
            if found.provider != each.provider or not found.identity:
                raise RefusedEvidenceError("identity", f"{each.provider} names no machine")
            proofs.append(found)
        _remember(self._verified, facts.uid, tuple(proofs))
        return tuple(proofs)

    async def _challenge(
        self, facts: RequestFacts, evidence: Evidence, verifier: Verifier
    ) -> tuple[Challenge | None, bytes]:
        """What the evidence answers, used up by this request from now on."""
        if not evidence.challenge:
            if verifier.needs_challenge:
                raise RefusedEvidenceError("challenge", f"{evidence.provider} counts only as the answer to a challenge")
            return None, b""
        found = await find(self._client, ATTESTATION_CHALLENGES, evidence.challenge)
        if found is None:
            raise RefusedEvidenceError("challenge", f"there is no challenge {evidence.challenge[:253]!r}: it has ended")
        spec, status = found.spec, found.status
        asked = (spec.provider, spec.version, spec.key_fingerprint)
        if asked != (evidence.provider, evidence.version, facts.key_fingerprint):
            raise RefusedEvidenceError("challenge", f"{evidence.challenge} is for another key, method or version")
        if not any(each.type == READY and each.status == wellknown.CONDITION_TRUE for each in status.conditions):
            raise RefusedEvidenceError("challenge", f"{evidence.challenge} was not to be answered")
        created, ends = facts.created, status.expires_at
        if ends is None or created is None or created > ends.datetime():
            raise RefusedEvidenceError("challenge-expired", f"{evidence.challenge} ended at {ends}")
        if status.used_by != facts.uid:
            if status.used_by:
                raise RefusedEvidenceError("challenge-used", f"{evidence.challenge} was answered by another request")
            await self._use(found, facts.uid)
        return Challenge(content=status.content, secret_digest=status.secret_digest, state=status.state), status.nonce

    async def _use(self, challenge: AttestationChallenge, uid: str) -> None:
        """Of two that come at once the second finds another version, and looks again. Raises ReconcileError."""
        status = msgspec.structs.replace(challenge.status, used_by=uid)
        try:
            await self._client.update(
                ATTESTATION_CHALLENGES, msgspec.structs.replace(challenge, status=status), subresource="status"
            )
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"challenge {challenge.metadata.name} cannot be used: {err}") from err

    def _verify_name(self, wanted: Wanted, proofs: Sequence[Attested]) -> None:
        settings = {each.provider: each for each in self._attestation.config.attestors}
        for proof in proofs:
            evidence_name = self._attestation.verifiers[proof.provider].machine_name(proof)
            name = node_attestation.expected_name(settings.get(proof.provider), proof, evidence_name)
            node_attestation.verify_name(wanted, name)

    def _named(self, wanted: Wanted) -> tuple[Machine, ...]:
        found = [*self._inventory.candidates(wanted.node_name)]
        if wanted.provider_id:
            found += self._inventory.provided(wanted.provider_id)
        return tuple({id(each): each for each in found}.values())

    def _foreign(self, proofs: Sequence[Attested]) -> tuple[Machine, ...]:
        found: list[Machine] = []
        for each in proofs:
            found += self._inventory.identified(Identity(each.provider, each.identity))
            if each.provider_id:
                found += self._inventory.provided(each.provider_id)
        return current(found, self._clock.now())

    # -------------------------------------------------------------- claim

    def _others(self, asked: Asked) -> list[NodeIdentity]:
        """Other names that the same machine, or the same key, has."""
        found = [
            each
            for provider, identity in node_identities.identities_of(asked.proofs)
            for each in self._identities.by_index(IDENTITY_INDEX, _identity_key(provider, identity))
        ]
        found += self._identities.by_index(KEY_INDEX, asked.key)
        return list({each.metadata.name: each for each in found}.values())

    async def _same_machine(self, asked: Asked) -> list[NodeIdentity]:
        """As the server has them now, and not a cache."""
        first = asked.proofs[0]
        options = ListOptions(field_selector=f"status.identity={_escaped(first.identity)}", limit=500)
        found = (await list_all(self._client, NODE_IDENTITIES, options=options)).items
        return [each for each in found if each.status.provider == first.provider]

    async def _claim(self, csr: CertificateSigningRequest, asked: Asked) -> None:
        """Of two controllers, or two machines, only one writes: the other finds another version, and looks again.

        Raises:
            IdentityRefusedError, ReconcileError
        """
        name = asked.node_name
        try:
            named = await find(self._client, NODE_IDENTITIES, name)
            others = [*self._others(asked), *await self._same_machine(asked)]
            decided = node_identities.decide(asked, named, others, self._clock.now())
            if named is None:
                named = await self._client.create(NODE_IDENTITIES, NodeIdentity(metadata=ObjectMeta(name=name)))
            written = await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(named, status=decided.status), subresource="status"
            )
            if decided.event in (node_identities.CLAIM, node_identities.REPLACE):
                await self._verify_alone(written, named, asked)
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"the claim of node {name} cannot be written: {err}") from err
        if decided.event != node_identities.AGAIN:
            first = asked.proofs[0]
            log.info(
                "a machine has proven what it is", node=name, what=decided.event, provider=first.provider,
                identity=first.identity, requester=asked.requester,
            )  # fmt: skip
            await self._tell(csr, NORMAL, f"Node{decided.event}", f"node {name} is {first.provider} {first.identity}")

    async def _verify_alone(self, written: NodeIdentity, former: NodeIdentity, asked: Asked) -> None:
        """A machine that claims two names at once gets neither, and comes again: each sees the other after it wrote.

        Raises:
            IgnorableError, APIStatusError, TransportError
        """
        own = written.metadata.name
        others = [each.metadata.name for each in await self._same_machine(asked) if each.metadata.name != own]
        if others:
            await self._client.update(
                NODE_IDENTITIES, msgspec.structs.replace(written, status=former.status), subresource="status"
            )
            raise IgnorableError(f"node {own} and node {others[0]} are claimed by one machine at once")

    # -------------------------------------------------------------- news

    async def _refused(self, csr: CertificateSigningRequest, facts: RequestFacts, step: str, message: str) -> Verdict:
        text = message if message.startswith(f"{step}: ") else f"{step}: {message}"
        log.warning("a machine is refused", csr=facts.name, requester=facts.username, why=text[:512])
        await self._tell(csr, WARNING, DENIED_REASON, text)
        return Verdict(
            Outcome.DENY, NAME, DENIED_REASON, text, steps=(Step(step, StepResult.UNMET, text),),
            rules=self._attestation.rules,
        )  # fmt: skip

    async def _tell(self, csr: CertificateSigningRequest, kind: str, reason: str, message: str) -> None:
        """Best effort: no decision waits for its Event."""
        about = ObjectReference(
            kind=CERTIFICATE_SIGNING_REQUESTS.kind, api_version=CERTIFICATE_SIGNING_REQUESTS.api_version,
            name=csr.metadata.name, uid=csr.metadata.uid,
        )  # fmt: skip
        if self._allowance.take():
            return
        with suppress(APIStatusError, TransportError):
            await self._events.record(about, kind, reason, message)

    async def _tell_versions(self, csr: CertificateSigningRequest, err: UnsupportedVersionError) -> None:
        """On the request, so that the machine files another one in an older form."""
        versions = ",".join(err.supported)
        if csr.metadata.annotations.get(wellknown.SUPPORTED_VERSIONS_ANNOTATION) == versions:
            return
        change = {"metadata": {"annotations": {wellknown.SUPPORTED_VERSIONS_ANNOTATION: versions}}}
        try:
            await self._client.patch(CERTIFICATE_SIGNING_REQUESTS, csr.metadata.name, change, MERGE_PATCH)
        except (APIStatusError, TransportError) as problem:
            raise ReconcileError(f"the versions cannot be told: {problem}") from problem


def _remember(known: dict[str, T], uid: str, value: T) -> None:
    known[uid] = value
    if len(known) > _REMEMBERED:
        del known[next(iter(known))]


def _waits(step: str, message: str, *, retry: bool) -> Verdict:
    return Verdict(
        Outcome.NO_OPINION, NAME, step, missing=message, steps=(Step(step, StepResult.UNKNOWN, message),), retry=retry,
        blocks=True,
    )  # fmt: skip


def _vouches(machine: Machine, proofs: Sequence[Attested]) -> bool:
    """Whether the inventory says of this very machine that it has the name."""
    known = set(machine.identities)
    return bool(machine.node_name) and any(Identity(each.provider, each.identity) in known for each in proofs)


def _steps(proofs: Sequence[Attested]) -> Iterable[Step]:
    for proof in proofs:
        yield Step(f"{proof.provider}.identity", StepResult.MET, proof.identity, by=str(proof.strength))
        for each in proof.claims:
            yield Step(each.name, StepResult.MET, each.value, by=f"{each.source} ({each.strength})")


def _evidence(proofs: Sequence[Attested]) -> Any:
    """For the ledger, within what it takes: whatever is too long there is told by its digest in the claim."""
    found = msgspec.to_builtins({"proofs": proofs})
    if len(msgspec.json.encode(found)) <= MAX_TRACE_BYTES:
        return found
    return msgspec.to_builtins({"proofs": [msgspec.structs.replace(each, claims=()) for each in proofs]})


def identity_keys(identity: NodeIdentity) -> Iterable[str]:
    return (_identity_key(*each) for each in node_identities.recorded(identity.status))


def key_fingerprints(identity: NodeIdentity) -> Iterable[str]:
    found = {identity.status.key_fingerprint, *(each.key_fingerprint for each in identity.status.granted)}
    return found - {""}


def _identity_key(provider: str, identity: str) -> str:
    return f"{provider} {identity}"


def _escaped(value: str) -> str:
    """As k8s.io/apimachinery/pkg/fields EscapeValue (Kubernetes 1.36)."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def build(context: Context, controller: QueueController) -> NodeAttestationApprover | None:
    """None where no method counts."""
    if context.attestation is None:
        return None
    client = context.connect(wellknown.NODE_ATTESTATION_CONTROLLER)
    identities = context.informers.informer(NODE_IDENTITIES, client=client)
    for index, function in ((IDENTITY_INDEX, identity_keys), (KEY_INDEX, key_fingerprints)):
        identities.indexer.add_index(index, function)
    nodes = context.informers.informer(NODES, client=client)
    requests = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)

    def look_again(_: str) -> None:
        for csr in requests.lister.list(matches=lambda each: node_attestation.is_client(each.spec.signer_name)):
            controller.queue.add(request_of(csr))

    context.inventory.on_change(look_again)
    controller.watch(identities)
    controller.watch(nodes)
    return NodeAttestationApprover(
        client, context.attestation, identities.lister, nodes.lister, context.inventory, context.clock
    )
