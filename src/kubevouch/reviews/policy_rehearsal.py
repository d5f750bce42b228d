"""Policies that nobody has applied yet: read from a file, looked at, and tried on what was decided.

PolicyFileError    the file has no policy, or one that cannot be evaluated; the text says which part
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, is_undecided
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES, CERTIFICATE_REQUEST_POLICY_KIND
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import CertificateRequestPolicy
from kubevouch.api.kubevouch_v1alpha1.own_kind import InvalidObject, read_object
from kubevouch.cel.environment import Budget
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.interface import Client
from kubevouch.controllers.approval.certificate_policies import evidence_of
from kubevouch.controllers.approval.policy_records import PolicyRecords
from kubevouch.ledger.entries import APPROVED, DENIED, INTENDED, Entry, Query
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.machinery.codec import yamltext
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_request
from kubevouch.policy.certificate_policies import Known, compile_policy, decide, fault_of, look, needs_of
from kubevouch.policy.expressions import REQUEST_BUDGET, Surroundings
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.replay import Replayed, replayed
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.reviews.csr_explanation import facts_of_entry, indexed, listed

MAX_FILE = 4 << 20
_PAGE = 500
_KINDS = frozenset({APPROVED, DENIED, INTENDED})


class PolicyFileError(ValueError):
    """The file has no policy, or one that cannot be evaluated."""


def read_policies(text: bytes) -> Sequence[CertificateRequestPolicy]:
    """Every policy in a file of YAML or JSON, each held to the schema and able to be evaluated.

    Raises:
        PolicyFileError
    """
    if len(text) > MAX_FILE:
        raise PolicyFileError(f"got {len(text)} bytes, expected at most {MAX_FILE}")
    try:
        trees = [tree for document in yamltext.load_documents(text) for tree in _objects(document)]
    except yamltext.YAMLError as err:
        raise PolicyFileError(f"no YAML: {' '.join(str(err).split())}") from err
    if not trees:
        raise PolicyFileError("got no object, expected a CertificateRequestPolicy")
    found: list[CertificateRequestPolicy] = []
    for number, tree in enumerate(trees, 1):
        try:
            policy = read_object(CERTIFICATE_REQUEST_POLICY_KIND, tree)
        except InvalidObject as err:
            raise PolicyFileError(f"object {number}: {err}") from err
        name = policy.metadata.name
        if not name or name in {each.metadata.name for each in found}:
            raise PolicyFileError(f"object {number}: got metadata.name {name!r}, expected a name that no other has")
        reason, message = fault_of(policy)
        if reason:
            raise PolicyFileError(f"{name}: {' '.join(message.split())}")
        found.append(policy)
    return found


def _objects(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
        items = document.get("items")
        yield from items if isinstance(items, list) else [items]
    elif document is not None:
        yield document


class Rehearsal:
    """Tries policies on requests of the past, and on those that are there.

    What only then was known, such as a Node, is not known now; what a requester may use is taken to be what he may use
    with every policy, which is the careful reading: a request that could be newly approved is shown.
    """

    def __init__(self, policies: Sequence[CertificateRequestPolicy], ledger: ReadableLedger) -> None:
        self._policies = [compile_policy(each) for each in policies]
        self._names = {each.metadata.name for each in policies}
        self._ledger = ledger

    async def of_the_ledger(self, since: dt.datetime) -> AsyncIterator[Replayed]:
        """Each request once, with what was decided last, newest first. Raises LedgerError."""
        seen: set[str] = set()
        query = Query(kinds=_KINDS, since=since, newest_first=True, limit=_PAGE)
        records = PolicyRecords(self._ledger, Indexer(), as_of_then=True)
        while page := await self._ledger.find(query):
            for each in page:
                entry = each.entry
                if entry.uid in seen:
                    continue
                facts = facts_of_entry(entry)
                if facts is None:
                    continue
                seen.add(entry.uid)
                yield await self._tried(facts, _decided(entry), entry.at, records, {})
            query = msgspec.structs.replace(query, before=page[-1].sequence)

    async def of_the_cluster(self, client: Client, now: dt.datetime) -> AsyncIterator[Replayed]:
        """Each request that nobody has decided. Raises APIStatusError, TransportError, LedgerError."""
        csrs = await listed(client, CERTIFICATE_SIGNING_REQUESTS)
        records = PolicyRecords(self._ledger, indexed(csrs))
        for csr in csrs:
            facts = _facts(csr) if is_undecided(csr) else None
            if facts is not None:
                waits = Verdict(Outcome.NO_OPINION, "")
                yield await self._tried(facts, waits, now, records, evidence_of(csr, trusts_annotations=True))

    async def _tried(
        self, facts: RequestFacts, before: Verdict, at: dt.datetime, records: PolicyRecords, evidence: Mapping[str, Any]
    ) -> Replayed:
        selected = [each for each in self._policies if each.selects(facts)]
        looked_up = await records.look(facts, needs_of(selected), at)
        known = Known(around=Surroundings(now=at, evidence=evidence), records=looked_up)
        whole = Budget(REQUEST_BUDGET)
        verdicts = [decide(each, look(each, facts, known, whole), may_use=True) for each in selected]
        return replayed(
            facts.name, before, verdicts, self._names, uid=facts.uid, signer=facts.signer_name, requester=facts.username
        )


def _decided(entry: Entry) -> Verdict:
    outcome = Outcome.DENY if entry.kind == DENIED else Outcome.APPROVE
    return Verdict(outcome, entry.approver or "people", entry.reason, entry.message)


def _facts(csr: CertificateSigningRequest) -> RequestFacts | None:
    try:
        return facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    except ParseError:
        return None


async def applied(client: Client, but: Iterable[CertificateRequestPolicy]) -> Sequence[CertificateRequestPolicy]:
    """The policies of the cluster that those of ``but`` do not take the place of."""
    names = {each.metadata.name for each in but}
    return [each for each in await listed(client, CERTIFICATE_REQUEST_POLICIES) if each.metadata.name not in names]
