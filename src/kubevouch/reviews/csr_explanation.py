"""Why a request was approved or denied, or what it waits for, rule by rule.

Of a request that nobody has decided, the approvers' own rules are asked again, with what the asking person may read; of
one that was decided, however long ago, the ledger has what was looked at.

    NothingKnownError    no request of the name, and no decision in the ledger
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.api.certificates_v1 import CertificateSigningRequest, is_undecided
from kubevouch.api.core_v1 import Node
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ALLOWED_MACHINES,
    CERTIFICATE_APPROVALS,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import CertificateRequestPolicy
from kubevouch.client import stored
from kubevouch.client.cache.indexer import Indexer, by_namespace
from kubevouch.client.cache.lister import NAMESPACE_INDEX, Lister
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers.approval.certificate_policies import REQUEST_INDEX, PolicyApprover
from kubevouch.controllers.approval.kubelet_client import KubeletClientApprover
from kubevouch.controllers.approval.policy_records import PolicyRecords
from kubevouch.controllers.inventory import MachineInventory
from kubevouch.ledger.entries import APPROVED, DENIED, Entry, Query
from kubevouch.ledger.interface import LedgerUnavailable, ReadableLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.policy import certificate_policies as policies
from kubevouch.policy import kubelet_serving as serving
from kubevouch.policy.certificate_policies import CompiledPolicy, compile_policy
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.inventory import machine_of
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.policy.verdict import Outcome, Step, Verdict, combine
from kubevouch.reviews import justification
from kubevouch.revocation.revocations import Revocations
from kubevouch.util.clock import Clock

T = TypeVar("T", bound=Object)

NO_LEDGER = "the ledger is not at hand here; --ledger or --data-dir say where it is"


class NothingKnownError(Exception):
    """No request of the name, and no decision in the ledger; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of a decision.

    Args:
        state: ``Pending``, ``Approved`` or ``Denied``.
        source: ``rules``: the approvers were asked now; ``ledger``: it was written down; ``conditions``: it was not.
        at: when it was decided.
    """

    name: str
    uid: str = ""
    state: str
    source: str
    at: dt.datetime | None = None
    request: RequestFacts | None = None
    verdict: Verdict


class _Nowhere:
    """A ledger that cannot be read."""

    async def find(self, query: Query) -> Sequence[object]:  # noqa: ARG002 - whatever is looked for
        raise LedgerUnavailable(NO_LEDGER)


class Listed:
    """The policies that were there."""

    def __init__(self, policies: Iterable[CertificateRequestPolicy]) -> None:
        self._compiled = sorted(map(compile_policy, policies), key=lambda each: each.name)

    def have_loaded(self) -> bool:
        return True

    async def current(self) -> Sequence[CompiledPolicy]:
        return self._compiled


async def explain(client: Client, name: str, ledger: ReadableLedger | None, clock: Clock) -> Explanation:
    """Why the request of this name is where it is.

    Raises:
        NothingKnownError
        APIStatusError, TransportError, LedgerError
    """
    csr = await stored.find(client, CERTIFICATE_SIGNING_REQUESTS, name)
    if csr is None or not is_undecided(csr):
        entry = await _decision(ledger, name, "" if csr is None else csr.metadata.uid)
        if entry is not None:
            return explained(entry)
        if csr is None:
            hint = "kubevouch csr list shows those that are there" if ledger is not None else NO_LEDGER
            raise NothingKnownError(f"there is no request {name!r}, and no decision about it is known", hint)
        return _by_conditions(csr)
    try:
        request = x509_request.parse_pem(csr.spec.request or b"")
    except ParseError as err:
        unreadable = Verdict(Outcome.NO_OPINION, "", "Unreadable", missing=f"spec.request cannot be read: {err}")
        return Explanation(name=name, uid=csr.metadata.uid, state="Pending", source="rules", verdict=unreadable)
    facts = facts_of(csr, request)
    verdicts: list[Verdict] = []
    for judgement in (_by_kubernetes_rules(client, csr, facts, clock), _by_policies(client, csr, facts, ledger, clock)):
        try:
            verdicts += await judgement
        except APIStatusError as err:
            if err.code != 403:
                raise
            verdicts.append(Verdict(Outcome.NO_OPINION, "", "Forbidden", missing=f"you may not look: {err}"))
    return Explanation(
        name=name, uid=facts.uid, state="Pending", source="rules", request=facts, verdict=combine(verdicts)
    )


async def _decision(ledger: ReadableLedger | None, name: str, uid: str) -> Entry | None:
    if ledger is None:
        return None
    query = Query(kinds=frozenset({APPROVED, DENIED}), request=name, uid=uid, newest_first=True, limit=1)
    return next((each.entry for each in await ledger.find(query)), None)


def explained(entry: Entry) -> Explanation:
    """A decision that was written down."""
    outcome = Outcome.APPROVE if entry.kind == APPROVED else Outcome.DENY
    verdict = Verdict(outcome, entry.approver, entry.reason, entry.message, steps=steps_of(entry))
    return Explanation(
        name=entry.request,
        uid=entry.uid,
        state=entry.kind.title(),
        source="ledger",
        at=entry.at,
        request=facts_of_entry(entry),
        verdict=verdict,
    )


def steps_of(entry: Entry) -> tuple[Step, ...]:
    """Those of an entry, and how many did not fit."""
    found = []
    for each in entry.trace or ():
        if "cut" in each:
            found.append(Step("trace", "skipped", f"{each['cut']} more steps"))
        else:
            found.append(msgspec.convert(each, Step))
    return tuple(found)


def facts_of_entry(entry: Entry) -> RequestFacts | None:
    """The request that was decided; None of entries that do not hold it."""
    if not entry.pkcs10:
        return None
    try:
        request = x509_request.parse_der(entry.pkcs10)
    except ParseError:
        return None
    derived = facts_of(CertificateSigningRequest(), request)
    return msgspec.structs.replace(
        derived,
        name=entry.request,
        uid=entry.uid,
        signer_name=entry.signer,
        username=entry.requester,
        groups=entry.groups,
        extra=entry.extra,
        usages=entry.usages,
        expiration_seconds=entry.expiration_seconds,
        created=entry.created,
    )


def unrecorded(found: Explanation, *, has_ledger: bool) -> str:
    """Why no rules are known of a decision that only the object shows."""
    if not has_ledger:
        return f"the rules that were looked at are not known: {NO_LEDGER}"
    if found.verdict.reason in (serving.APPROVED_REASON, policies.APPROVED_REASON):
        return "the ledger does not have it: another controller decided, or it was before the ledger began"
    return f"{found.state.lower()} by hand: no rule was looked at"


def _by_conditions(csr: CertificateSigningRequest) -> Explanation:
    by_type = {each.type: each for each in csr.status.conditions}
    kinds = (wellknown.CSR_DENIED, wellknown.CSR_APPROVED, wellknown.CSR_FAILED)
    condition = next((by_type[each] for each in kinds if each in by_type), None)
    denied = condition is not None and condition.type == wellknown.CSR_DENIED
    since = None if condition is None else condition.last_update_time
    return Explanation(
        name=csr.metadata.name,
        uid=csr.metadata.uid,
        state="Issued" if condition is None else condition.type,
        source="conditions",
        at=None if since is None else since.datetime(),
        verdict=Verdict(
            Outcome.DENY if denied else Outcome.APPROVE,
            "",
            "" if condition is None else condition.reason,
            "" if condition is None else condition.message,
        ),
    )


async def _by_kubernetes_rules(
    client: Client, csr: CertificateSigningRequest, facts: RequestFacts, clock: Clock
) -> Sequence[Verdict]:
    request = x509_request.parse_pem(csr.spec.request or b"")
    recognized = await KubeletClientApprover(client).judge(csr, facts, request)
    kubelets = (wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER, wellknown.KUBELET_SERVING_SIGNER)
    if facts.signer_name not in kubelets or (recognized.steps and recognized.outcome is not Outcome.APPROVE):
        return (recognized,)
    _, justified = await (await justification.gather(client, clock, ServingRules())).judge(csr)
    return (msgspec.structs.replace(justified, steps=(*recognized.steps, *justified.steps)),)


async def _by_policies(
    client: Client, csr: CertificateSigningRequest, facts: RequestFacts, ledger: ReadableLedger | None, clock: Clock
) -> Sequence[Verdict]:
    policies = Listed(await listed(client, CERTIFICATE_REQUEST_POLICIES))
    if not any(each.selects(facts) for each in await policies.current()):
        return ()
    approver = await gathered(client, policies, ledger, clock)
    return await approver.judge(csr, facts, x509_request.parse_pem(csr.spec.request or b""))


async def gathered(client: Client, policies: Listed, ledger: ReadableLedger | None, clock: Clock) -> PolicyApprover:
    """The approver, over what the cluster holds now."""
    csrs = indexed(await listed(client, CERTIFICATE_SIGNING_REQUESTS))
    nodes: Indexer[Node] = indexed(await listed(client, NODES))
    approvals: Indexer[CertificateApproval] = indexed(await listed(client, CERTIFICATE_APPROVALS))
    approvals.add_index(REQUEST_INDEX, lambda each: (each.spec.request_uid,))
    machines = MachineInventory()
    expect = machines.add_documents()
    expect(machine_of(each, f"allowedmachine/{each.metadata.name}") for each in await listed(client, ALLOWED_MACHINES))
    records = PolicyRecords(ledger or _Nowhere(), csrs)  # type: ignore[arg-type]  # it finds nothing of any type
    revocations = Revocations.none()
    if any(each.people is not None for each in await policies.current()):
        revocations.load(await listed(client, CERTIFICATE_REVOCATIONS))
    return PolicyApprover(
        client, policies, records, Lister(nodes), Lister(approvals), machines, clock, trusts_annotations=True,
        revocations=revocations,
    )  # fmt: skip


async def listed(client: Client, resource: Resource[T]) -> Sequence[T]:
    """All of a kind; none where it is not served."""
    try:
        return (await list_all(client, resource, options=PAGES)).items
    except APIStatusError as err:
        if err.code == 404:
            return ()
        raise


def indexed(objects: Iterable[T]) -> Indexer[T]:
    indexer: Indexer[T] = Indexer({NAMESPACE_INDEX: by_namespace})
    for each in objects:
        indexer.put(each)
    return indexer
