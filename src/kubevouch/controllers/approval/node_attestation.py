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
from typing import Any

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Node
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.attestation.interface import Attested, RefusedEvidenceError, UnavailableError, UnsupportedVersionError
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import MERGE_PATCH, Client, TransportError
from kubevouch.controllers.approval.interface import UNCOUNTED, ApprovalMetrics, RefusedError
from kubevouch.controllers.approval.name_admission import NameAdmission, NameRefusedError
from kubevouch.controllers.approval.node_claims import NodeClaims
from kubevouch.controllers.approval.node_proofs import NodeProofs
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, ReconcileError, request_of
from kubevouch.controllers.inventory import MachineInventory
from kubevouch.controllers.outside_questions import RequestQuestions, request_questions
from kubevouch.ledger.entries import ISSUED, Query
from kubevouch.ledger.interface import LedgerError, ReadableLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import NODE_SIGNERS, attestation_provider, rules_signer
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import node_attestation, node_identities, unattested
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.inventory import Identity, Machine, current
from kubevouch.policy.node_attestation import NotYetError, RequestRefusedError, Wanted
from kubevouch.policy.node_identities import Asked, IdentityRefusedError
from kubevouch.policy.verdict import MAX_TRACE_BYTES, Outcome, Step, StepResult, Verdict
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

log = get_logger("controllers.node_attestation")

NAME = "node-attestation"
APPROVED_REASON = "MachineAttested"
DENIED_REASON = "AttestationRefused"
FALLBACK_EVENT = "AttestationFallback"
_NODE_INDEX = "attested-node"
# Of requests that are about to be approved.
_REMEMBERED = 4096
# Certificates of one node, among which one is a client's.
_LOOKED_AT = 100


class NodeAttestationApprover:
    """See :class:`kubevouch.controllers.approval.interface.Approver` and ``Bound``: the claim is taken last."""

    name = NAME

    def __init__(
        self,
        client: Client,
        attestation: Attestation,
        claims: NodeClaims,
        nodes: Lister[Node],
        inventory: MachineInventory,
        ledger: ReadableLedger,
        clock: Clock,
        questions: RequestQuestions,
        metrics: ApprovalMetrics = UNCOUNTED,
        *,
        trusts_annotations: bool = False,
    ) -> None:
        self._trusts_annotations = trusts_annotations
        self._client = client
        self._attestation = attestation
        self._metrics = metrics
        self._proofs = NodeProofs(client, attestation, questions)
        self._claims = claims
        self._nodes = nodes
        self._inventory = inventory
        self._ledger = ledger
        self._clock = clock
        self._proven: dict[str, Asked] = {}
        # Those of them of whom nothing says that the name was theirs before.
        self._strangers: set[str] = set()
        self.names: NameAdmission | None = None
        """To whom names belong by certificates that needed no proof; None where others approve those."""

    def has_loaded(self) -> bool:
        return self._inventory.has_loaded()

    async def judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        """See the protocol. An answer uses its challenge up, whatever comes of it."""
        if not node_attestation.is_client(facts.signer_name):
            is_serving = node_attestation.is_serving(facts.signer_name)
            return self._serving(facts) if is_serving else await self._without_proof(facts)
        provider = attestation_provider(facts.signer_name)
        if provider not in self._attestation.verifiers:
            return Verdict(Outcome.NO_OPINION, NAME)
        try:
            verdict = await self._judge(csr, facts, request)
            self._metrics.attested(provider, "verified")
            return verdict
        except (RequestRefusedError, RefusedEvidenceError, IdentityRefusedError) as err:
            self._metrics.attested(provider, err.step)
            return await self._refused(facts, err.step, str(err))
        except NotYetError as err:
            return _waits(err.step, str(err), retry=err.retry)
        except UnsupportedVersionError as err:
            await self._tell_versions(csr, err)
            return _waits("version", str(err), retry=False)
        except UnavailableError as err:
            self._metrics.attested(provider, "unavailable")
            return _waits("unavailable", str(err), retry=True)

    async def _judge(self, csr: CertificateSigningRequest, facts: RequestFacts, request: CertificateRequest) -> Verdict:
        config, now = self._attestation.config, self._clock.now()
        wanted = node_attestation.read(facts, request, config)
        # Before anything is waited for: evidence ages, and a challenge is kept for whoever has answered it.
        proofs = await self._proofs.verified(csr, wanted.provider, facts, request, now)
        node_attestation.verify_own_name(wanted, self._proven_machines(proofs, now))
        waited = now - facts.created if facts.created is not None else dt.timedelta()
        machines = current(self._named(wanted), now)
        machine = node_attestation.machine_of(wanted, machines, config, waited)
        self._verify_name(wanted, proofs)
        node_attestation.verify_machine(wanted, proofs, facts.key_fingerprint, machines)
        named = self._claims.named(wanted.node_name)
        claimed = named is not None and node_identities.is_same(proofs, named.status)
        vouched = machine is not None and _vouches(machine, proofs)
        node = self._nodes.get(wanted.node_name)
        node_attestation.verify_node(wanted, node, proofs, claimed=claimed, vouched=vouched)
        is_known = claimed or vouched or wanted.own or node_attestation.is_node(node, proofs)
        group = node_attestation.group_of(config, wanted.node_name, machine, proofs)
        node_attestation.verify_strength(group, proofs)
        node_attestation.verify_callback(group, machine, proofs)
        asked = Asked(
            node_name=wanted.node_name, proofs=proofs, key=facts.key_fingerprint, uid=facts.uid,
            requester=facts.username, seconds=node_attestation.seconds_for(config, group, proofs, now), own=wanted.own,
            address=self._source(csr),
        )  # fmt: skip
        # Asked again when the name is taken: here it keeps nobody waiting, or using a token up, who has no chance.
        node_identities.decide(asked, named, self._claims.others(asked), now)
        self._proven[facts.uid] = asked
        (self._strangers.discard if is_known else self._strangers.add)(facts.uid)
        if len(self._proven) > _REMEMBERED:
            oldest = next(iter(self._proven))
            del self._proven[oldest]
            self._strangers.discard(oldest)
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

    async def admit(self, csr: CertificateSigningRequest, request: CertificateRequest) -> None:
        """See :class:`kubevouch.controllers.approval.interface.Bound`. Takes the name."""
        if not node_attestation.is_client(csr.spec.signer_name):
            await self._admit_other(facts_of(csr, request))
            return
        if attestation_provider(csr.spec.signer_name) not in self._attestation.verifiers:
            # Somebody else's method: nothing is signed here.
            return
        asked = self._proven.pop(csr.metadata.uid, None)
        if asked is None:
            raise RefusedError(NAME, DENIED_REASON, "nothing was proven: no other approval counts for this signer")
        is_stranger = asked.uid in self._strangers
        self._strangers.discard(asked.uid)
        try:
            if is_stranger and self.names is not None:
                # That it is some machine gives it no name that another one has, which is away.
                await self.names.admit(csr, request)
            await self._claims.take(asked)
        except NameRefusedError as err:
            await self._tell_refused(asked.node_name, str(err))
            raise RefusedError(NAME, err.reason, str(err)) from err
        except IdentityRefusedError as err:
            text = f"{err.step}: {err}"
            await self._tell_refused(asked.node_name, text)
            raise RefusedError(NAME, DENIED_REASON, text) from err

    async def _admit_other(self, facts: RequestFacts) -> None:
        named = self._claims.named(node_name_of(facts.username))
        if node_attestation.is_serving(facts.signer_name) and named is not None:
            seconds = node_attestation.serving_seconds(self._attestation.config, named)
            await self._claims.grant(named.metadata.name, facts.uid, facts.key_fingerprint, seconds)
        elif unattested.is_fallback(facts, named):
            name = facts.subject.common_name
            what = "joins by a bootstrap token" if named is None else "renews by the certificate that it has"
            log.warning("a machine gets a certificate without a proof", name=name, csr=facts.name, how=what)
            await self._claims.tell_request(facts, FALLBACK_EVENT, f"{name} {what}, without a proof")

    # -------------------------------------------------------------- what there is to know

    def _serving(self, facts: RequestFacts) -> Verdict:
        if attestation_provider(facts.signer_name) not in self._attestation.verifiers:
            return Verdict(Outcome.NO_OPINION, NAME)
        named = self._claims.named(node_name_of(facts.username))
        if named is not None and named.spec.banned:
            return _denied("banned", f"node {named.metadata.name} is banned")
        against = node_attestation.serving_objection(facts, named)
        if against is None:
            return Verdict(Outcome.NO_OPINION, NAME)
        if against.denied:
            return _denied(against.step, against.message)
        return _waits(against.step, against.message, retry=True)

    async def _without_proof(self, facts: RequestFacts) -> Verdict:
        name = node_name_of(facts.subject.common_name)
        named = self._claims.named(name)
        banned = self._claims.banned(facts.key_fingerprint)
        against = unattested.objection(facts, named, banned, self._attestation.config)
        own = bool(name) and facts.username == facts.subject.common_name
        if against is None and named is None and own and facts.signer_name in NODE_SIGNERS:
            against = unattested.forgotten(facts, await self._last_signer(name), self._attestation.config)
        if against is None:
            return Verdict(Outcome.NO_OPINION, NAME)
        if not against.denied:
            return _waits(against.step, against.message, retry=False)
        return _denied(against.step, against.message)

    async def _last_signer(self, name: str) -> str:
        """Of the newest client certificate that was issued for a node; empty for none."""
        query = Query(kinds=frozenset({ISSUED}), node=name, newest_first=True, limit=_LOOKED_AT)
        try:
            found = [each.entry.signer for each in await self._ledger.find(query)]
        except LedgerError as err:
            raise ReconcileError(f"what was issued to node {name} cannot be read: {err}") from err
        return next((each for each in found if rules_signer(each) == KUBE_APISERVER_CLIENT_KUBELET_SIGNER), "")

    def _source(self, csr: CertificateSigningRequest) -> str:
        """From where it came, where the API server says so: another one keeps what the requester has written there."""
        return csr.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "") if self._trusts_annotations else ""

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

    def _proven_machines(self, proofs: Sequence[Attested], now: dt.datetime) -> tuple[Machine, ...]:
        found: list[Machine] = []
        for each in proofs:
            found += self._inventory.identified(Identity(each.provider, each.identity))
            if each.provider_id:
                found += self._inventory.provided(each.provider_id)
        return current(found, now)

    # -------------------------------------------------------------- news

    async def _refused(self, facts: RequestFacts, step: str, message: str) -> Verdict:
        text = message if message.startswith(f"{step}: ") else f"{step}: {message}"
        log.warning("a machine is refused", csr=facts.name, requester=facts.username, why=text[:512])
        name = node_name_of(facts.subject.common_name)
        await self._tell_refused(name, text)
        if facts.username == facts.subject.common_name and node_attestation.is_of_machine(step):
            await self._claims.renewal_failed(name, step, text, facts.username)
        return msgspec.structs.replace(_denied(step, message), rules=self._attestation.rules)

    async def _tell_refused(self, node_name: str, text: str) -> None:
        """Beside what is told of the request, to whom the name belongs: somebody else asks for it."""
        named = self._claims.named(node_name)
        if named is not None:
            await self._claims.tell(named, DENIED_REASON, text, warning=True)

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


def _denied(step: str, message: str) -> Verdict:
    text = message if message.startswith(f"{step}: ") else f"{step}: {message}"
    return Verdict(Outcome.DENY, NAME, DENIED_REASON, text, steps=(Step(step, StepResult.UNMET, text),))


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


def _node_names(csr: CertificateSigningRequest) -> Iterable[str]:
    """Whose machine a request may wait for: that of its name, or any."""
    if not node_attestation.is_client(csr.spec.signer_name):
        return ()
    try:
        return "", node_name_of(x509_request.parse_pem(csr.spec.request or b"").subject.common_name)
    except ParseError:
        return ()


def build(context: Context, controller: QueueController) -> NodeAttestationApprover | None:
    """None where no method counts."""
    if context.attestation is None:
        return None
    client = context.connect(wellknown.NODE_ATTESTATION_CONTROLLER)
    identities = context.informers.informer(NODE_IDENTITIES, client=client)
    nodes = context.informers.informer(NODES, client=client)
    requests = context.informers.informer(CERTIFICATE_SIGNING_REQUESTS, client=client)
    claims = NodeClaims(client, identities, context.clock, context.decisions)

    requests.indexer.add_index(_NODE_INDEX, _node_names)

    def look_again(node_name: str) -> None:
        for csr in requests.lister.by_index(_NODE_INDEX, node_name):
            controller.queue.add(request_of(csr))

    context.inventory.on_change(look_again)
    controller.watch(identities)
    controller.watch(nodes)
    return NodeAttestationApprover(
        client,
        context.attestation,
        claims,
        nodes.lister,
        context.inventory,
        context.ledger,
        context.clock,
        request_questions(controller.questions, context),
        context.approval_metrics,
        trusts_annotations=context.is_own_server,
    )
