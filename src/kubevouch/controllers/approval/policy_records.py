"""What was issued and approved before, for policies that ask: from the ledger, the requests that are there, and memory.

The ledger knows what was signed beside it, however long ago; the requests also what others sign, for the hour that they
stay; the memory what was approved a moment ago, of which neither has heard.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

import msgspec

from kubevouch import wellknown
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestSpec,
    has_condition,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import MAX_RATE
from kubevouch.client.cache.indexer import Indexer
from kubevouch.ledger.entries import APPROVED, INTENDED, ISSUED, REVOKED, Entry, Query
from kubevouch.ledger.interface import LedgerError, ReadableLedger
from kubevouch.pki.errors import ParseError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy.constraints import RecordNeeds, Records, names_of, node_of
from kubevouch.policy.facts import RequestFacts, facts_of

KEY_INDEX, NODE_INDEX, NAME_INDEX = "policy-key", "policy-node", "policy-name"
_DECIDED = frozenset({APPROVED, INTENDED})
_MAX_NAMES = 100
# Names of an approval that each lead to it; one with more is looked at whenever names are.
_MAX_INDEXED = 100
# Entries that are looked at for one name or key: whoever has as many certificates for it has it.
# Approved, and intended.
_ENTRIES_A_REQUEST = 2
_LOOKED_AT = 100
# By then the ledger has every approval that is written at all.
_GRANT_SECONDS = 300
_MAX_GRANTS = 4096


class _Grant(msgspec.Struct, frozen=True):
    number: int
    facts: RequestFacts
    at: dt.datetime


class PolicyRecords:
    """Args:
    csrs: gets three indexes more.
    as_of_then: what came after the moment that is asked about does not count.
    """

    def __init__(
        self, ledger: ReadableLedger, csrs: Indexer[CertificateSigningRequest], *, as_of_then: bool = False
    ) -> None:
        self._ledger = ledger
        self._as_of_then = as_of_then
        self._csrs = csrs
        self._grants: dict[str, _Grant] = {}
        # Grants that may be what is asked about, by what they are found under; the oldest first, as above.
        self._found: dict[tuple[str, ...], dict[str, _Grant]] = {}
        self.granted_so_far = 0
        places = _Places()
        for name, function in ((KEY_INDEX, places.keys), (NODE_INDEX, places.nodes), (NAME_INDEX, places.names)):
            with suppress(ValueError):  # somebody who shares the cache has added it
                csrs.add_index(name, function)

    def granted(self, facts: RequestFacts, now: dt.datetime) -> None:
        """The request is about to be approved."""
        self.granted_so_far += 1
        self._forget(facts.uid)
        grant = self._grants[facts.uid] = _Grant(self.granted_so_far, facts, now)
        for term in _terms(facts):
            self._found.setdefault(term, {})[facts.uid] = grant
        if len(self._grants) > _MAX_GRANTS:
            self._forget(next(iter(self._grants)))

    def _forget(self, uid: str) -> None:
        grant = self._grants.pop(uid, None)
        for term in () if grant is None else _terms(grant.facts):
            found = self._found[term]
            del found[uid]
            if not found:
                del self._found[term]

    def with_grants(self, records: Records, facts: RequestFacts, needs: RecordNeeds, begun: int) -> Records:
        """``records``, which were looked up when ``begun`` were granted, with what was granted since that matters.

        The same object if nothing does.
        """
        names = [(each, covers) for each in names_of(facts) for covers in _covering(each)] if needs.holders else []
        for other in self._since(facts, needs, begun):
            if needs.key and other.key_fingerprint == facts.key_fingerprint:
                records = msgspec.structs.replace(records, key_waits=f"{other.name} is approved for it")
            if other.signer_name == facts.signer_name and other.username == facts.username and needs.periods:
                more = {period: count + 1 for period, count in records.approved.items()}
                records = msgspec.structs.replace(records, approved=more)
            if needs.certificates and _is_of_node(other, facts):
                records = msgspec.structs.replace(records, certificates=records.certificates + 1)
            if other.username != facts.username:
                theirs = set(map(_folded, names_of(other))) if names else ()
                held = {each: f"{other.name} of {other.username} is approved for it"
                        for each, covers in names if covers in theirs}  # fmt: skip
                if held:
                    records = msgspec.structs.replace(records, holders={**records.holders, **held})
        return records

    def _since(self, facts: RequestFacts, needs: RecordNeeds, begun: int) -> Iterator[RequestFacts]:
        """Those granted since that may matter, the newest first."""
        names = names_of(facts) if needs.holders else ()
        terms = {_MANY_NAMES, *(_of_name(covers) for each in names for covers in _covering(each))}
        asked = ((needs.key, _of_key), (needs.periods, _of_requester), (needs.certificates, _of_node))
        terms |= {term_of(facts) for matters, term_of in asked if matters}
        since = {}
        for term in terms:
            for uid, grant in reversed(self._found.get(term, {}).items()):
                if grant.number <= begun:
                    break
                since[uid] = grant
        since.pop(facts.uid, None)
        return (each.facts for each in sorted(since.values(), key=lambda grant: -grant.number))

    async def look(self, facts: RequestFacts, needs: RecordNeeds, now: dt.datetime) -> Records:
        """What ``needs`` asks about a request; a ledger that cannot be read is the records' fault."""
        if not needs:
            return Records()
        try:
            key, waits = await self._key(facts, now) if needs.key else ("", "")
            return Records(
                key=key,
                key_waits=waits,
                approved={period: await self._approved(facts, period, now) for period in needs.periods},
                certificates=await self._certificates(facts, now) if needs.certificates else 0,
                holders=await self._holders(facts, now) if needs.holders else {},
            )
        except LedgerError as err:
            return Records(fault=f"the ledger cannot be read: {err}")

    def _until(self, now: dt.datetime) -> dt.datetime | None:
        return now if self._as_of_then else None

    def _recent(
        self, facts: RequestFacts, term: tuple[str, ...], now: dt.datetime, seconds: int = _GRANT_SECONDS
    ) -> Iterator[RequestFacts]:
        """Other requests of ``term`` (:func:`_terms`) that were approved a moment ago."""
        first = now - dt.timedelta(seconds=min(seconds, _GRANT_SECONDS))
        found = self._found.get(term, {})
        return (each.facts for uid, each in found.items() if uid != facts.uid and each.at >= first)

    def _others(self, index: str, value: str, facts: RequestFacts) -> Iterator[CertificateSigningRequest]:
        return (csr for csr in self._csrs.by_index(index, value) if csr.metadata.uid != facts.uid)

    async def _key(self, facts: RequestFacts, now: dt.datetime) -> tuple[str, str]:
        """Who has a certificate for the key, and who may be about to get one.

        Whoever reads a request can have it signed for himself by another signer. That does not make the key his, so
        that one of somebody else keeps a request waiting and does not contradict it.
        """
        key = facts.key_fingerprint
        query = Query(kinds=_DECIDED | {ISSUED}, key=key, limit=_LOOKED_AT, until=self._until(now), newest_first=True)
        entries = [each.entry for each in await self._ledger.find(query) if each.entry.uid != facts.uid]
        waits, own = "", node_name_of(facts.username)
        for entry in entries:
            if entry.kind == ISSUED:
                if entry.requester == facts.username or (own and entry.node == own):
                    return f"{entry.request} had a certificate for it", ""
                waits = waits or f"{entry.request} of {entry.requester} had a certificate for it"
        for csr in self._others(KEY_INDEX, key, facts):
            if csr.status.certificate:
                if csr.spec.username == facts.username:
                    return f"{csr.metadata.name} has a certificate for it", ""
                waits = waits or f"{csr.metadata.name} of {csr.spec.username} has a certificate for it"
            elif _may_be_signed(csr):
                waits = waits or f"{csr.metadata.name} is approved for it"
        for entry in entries:
            if not self._has_failed(entry):
                waits = waits or f"{entry.request} was approved for it"
        for other in self._recent(facts, _of_key(facts), now):
            waits = waits or f"{other.name} is approved for it"
        return "", waits

    def _has_failed(self, entry: Entry) -> bool:
        """Whether the request is still there and will get no certificate."""
        csr = self._csrs.get(entry.request)
        return csr is not None and csr.metadata.uid == entry.uid and not _may_be_signed(csr)

    async def _approved(self, facts: RequestFacts, period: int, now: dt.datetime) -> int:
        since = now - dt.timedelta(seconds=period)
        query = Query(
            kinds=_DECIDED, requester=facts.username, signer=facts.signer_name, since=since, newest_first=True,
            limit=_ENTRIES_A_REQUEST * (MAX_RATE + 1),
        )  # fmt: skip
        uids = {each.entry.uid for each in await self._ledger.find(query)}
        uids |= {other.uid for other in self._recent(facts, _of_requester(facts), now, period)}
        return len(uids - {facts.uid})

    async def _certificates(self, facts: RequestFacts, now: dt.datetime) -> int:
        node, signer = node_of(facts), facts.signer_name
        if not node:
            return 0
        until = self._until(now)
        live = Query(kinds=frozenset({ISSUED}), node=node, signer=signer, ends_after=now, until=until)
        issued = {each.entry.uid: each.entry for each in await self._ledger.find(live)}
        revoked = await self._ledger.find(Query(kinds=frozenset({REVOKED}), node=node, until=until)) if issued else ()
        serials = {each.entry.serial for each in revoked}
        count = sum(uid != facts.uid and entry.serial not in serials for uid, entry in issued.items())
        seen = {*issued, facts.uid}
        for csr in self._others(NODE_INDEX, node, facts):
            if csr.spec.signer_name != signer or csr.metadata.uid in seen:
                continue
            leaf = _leaf(csr)
            if _may_be_signed(csr) if leaf is None else now < leaf.not_after:
                seen.add(csr.metadata.uid)
                count += 1
        return count + sum(other.uid not in seen for other in self._recent(facts, _of_node(facts), now))

    async def _holders(self, facts: RequestFacts, now: dt.datetime) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in names_of(facts)[:_MAX_NAMES]:
            for covers in _covering(name):
                holder = await self._holder(covers, facts, now)
                if holder:
                    found[name] = holder
                    break
        return found

    async def _holder(self, name: str, facts: RequestFacts, now: dt.datetime) -> str:
        """Who else has ``name``, which is folded."""
        own = node_name_of(facts.username)
        for written in (name, f"{name}."):
            query = Query(
                kinds=frozenset({ISSUED}), name=written, ends_after=now, until=self._until(now), newest_first=True,
                limit=_LOOKED_AT,
            )  # fmt: skip
            for each in await self._ledger.find(query):
                entry = each.entry
                if entry.requester != facts.username and not (own and entry.node == own):
                    return f"{entry.requester} has a certificate for it until {entry.not_after}"
        for csr in self._others(NAME_INDEX, name, facts):
            if csr.spec.username == facts.username:
                continue
            leaf = _leaf(csr)
            if leaf is not None and now < leaf.not_after:
                return f"{csr.spec.username} has a certificate for it until {leaf.not_after}"
            if leaf is None and _may_be_signed(csr):
                return f"{csr.metadata.name} of {csr.spec.username} is approved for it"
        for other in chain(self._recent(facts, _of_name(name), now), self._recent(facts, _MANY_NAMES, now)):
            if other.username != facts.username and name in map(_folded, names_of(other)):
                return f"{other.name} of {other.username} is approved for it"
        return ""


_MANY_NAMES = ("names",)


def _of_key(facts: RequestFacts) -> tuple[str, ...]:
    return "key", facts.key_fingerprint


def _of_requester(facts: RequestFacts) -> tuple[str, ...]:
    return "requester", facts.username, facts.signer_name


def _of_node(facts: RequestFacts) -> tuple[str, ...]:
    return "node", node_of(facts), facts.signer_name


def _of_name(folded: str) -> tuple[str, ...]:
    return "name", folded


def _terms(facts: RequestFacts) -> set[tuple[str, ...]]:
    """What a grant is found under."""
    names = names_of(facts)
    found = {_of_name(_folded(each)) for each in names} if len(names) <= _MAX_INDEXED else {_MANY_NAMES}
    return {*found, _of_key(facts), _of_requester(facts), _of_node(facts)}


def _is_of_node(other: RequestFacts, facts: RequestFacts) -> bool:
    node = node_of(facts)
    return node != "" and (node_of(other), other.signer_name) == (node, facts.signer_name)


def _folded(name: str) -> str:
    """Names of hosts that are one name, as one: whoever resolves them takes no notice of case and the root's dot."""
    return name.lower().rstrip(".")


def _covering(name: str) -> Iterator[str]:
    """``name``, and the wild card that stands for it, too; folded."""
    folded = _folded(name)
    yield folded
    host, dot, domain = folded.partition(".")
    if dot and "." in domain and host != "*":
        yield f"*.{domain}"


def _may_be_signed(csr: CertificateSigningRequest) -> bool:
    refused = has_condition(csr, wellknown.CSR_DENIED) or has_condition(csr, wellknown.CSR_FAILED)
    return has_condition(csr, wellknown.CSR_APPROVED) and not refused


def _leaf(csr: CertificateSigningRequest) -> Certificate | None:
    try:
        return x509_certificate.parse_bundle(csr.status.certificate)[0] if csr.status.certificate else None
    except ParseError:
        return None


class _Places:
    """Where a request is found. The three indexes ask one after the other, and each for what was there before, too."""

    def __init__(self) -> None:
        self._last: tuple[CertificateSigningRequestSpec, _Place] | None = None

    def keys(self, csr: CertificateSigningRequest) -> Iterable[str]:
        return self._of(csr)[0]

    def nodes(self, csr: CertificateSigningRequest) -> Iterable[str]:
        return self._of(csr)[1]

    def names(self, csr: CertificateSigningRequest) -> Iterable[str]:
        return self._of(csr)[2]

    def _of(self, csr: CertificateSigningRequest) -> _Place:
        if self._last is None or self._last[0] != csr.spec:
            self._last = csr.spec, _place_of(csr)
        return self._last[1]


# Of its key, its node and its names; all that a request says of them is in its spec.
_Place = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _place_of(csr: CertificateSigningRequest) -> _Place:
    try:
        facts = facts_of(csr, x509_request.parse_pem(csr.spec.request or b""))
    except ParseError:
        return (), (), ()
    node = node_of(facts)
    names = dict.fromkeys(_folded(each) for each in names_of(facts)[:_MAX_NAMES])
    return (facts.key_fingerprint,), (node,) if node else (), tuple(names)
