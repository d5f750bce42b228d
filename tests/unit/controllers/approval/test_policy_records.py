"""controllers/approval/policy_records.py: what was approved a moment ago is found as if each were looked at."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from decisions import csr, request_pem
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import MAX_RATE
from kubevouch.client.cache.indexer import Indexer
from kubevouch.controllers.approval import policy_records
from kubevouch.controllers.approval.policy_records import KEY_INDEX, NAME_INDEX, NODE_INDEX, PolicyRecords
from kubevouch.ledger.entries import APPROVED, INTENDED, ISSUED, Entry
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_request import CertificateRequest, parse_pem
from kubevouch.policy.constraints import RecordNeeds, Records, names_of, node_of
from kubevouch.policy.facts import RequestFacts, SubjectFacts, facts_of

_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_NEEDS = RecordNeeds(key=True, periods=frozenset({60, 3600}), certificates=True, holders=True)
_MOST = 6


@st.composite
def _requests(draw: st.DrawFn) -> RequestFacts:
    uid = draw(st.sampled_from("abcdefghij"))
    names = draw(
        st.lists(
            st.sampled_from(["x.y.example", "X.y.example", "x.y.Example.", "*.Y.example", "z.example"]), max_size=4
        )
    )
    return RequestFacts(
        name=f"csr-{uid}", uid=uid, signer_name=draw(st.sampled_from("st")), username=draw(st.sampled_from("uv")),
        key_fingerprint=draw(st.sampled_from("kl")), dns_names=tuple(names),
        subject=SubjectFacts(common_name=draw(st.sampled_from(["", "system:node:n", "system:node:m"]))),
        groups=(), usages=(), ip_addresses=(), email_addresses=(), uris=(), key_algorithm="ECDSA", key_bits=256,
    )  # fmt: skip


_Grants = list[tuple[RequestFacts, int]]


_Said = tuple[bool, dict[int, int], int, set[str]]


def _expected(grants: _Grants, asked: RequestFacts, now: int) -> _Said:
    """Whether the key waits, how many were approved, certificates of the node, names that others hold."""
    latest: dict[str, tuple[RequestFacts, int]] = {}
    for facts, at in grants:
        latest.pop(facts.uid, None)
        latest[facts.uid] = facts, at
        if len(latest) > _MOST:
            del latest[next(iter(latest))]
    others = [(facts, at) for facts, at in latest.values() if facts.uid != asked.uid and at >= now - 300]
    mine = [at for each, at in others if (each.username, each.signer_name) == (asked.username, asked.signer_name)]
    foreign = {_one(n) for each, _ in others if each.username != asked.username for n in names_of(each)}
    node = node_of(asked)
    return (
        any(each.key_fingerprint == asked.key_fingerprint for each, _ in others),
        {period: sum(at >= now - period for at in mine) for period in _NEEDS.periods},
        sum(bool(node) and (node_of(e), e.signer_name) == (node, asked.signer_name) for e, _ in others),
        {
            name
            for name in names_of(asked)
            if _one(name) in foreign or (_one(name) == "x.y.example" and "*.y.example" in foreign)
        },
    )


def _one(name: str) -> str:
    return name.lower().removesuffix(".")


def _said(records: Records) -> _Said:
    return bool(records.key_waits), dict(records.approved), records.certificates, set(records.holders)


@given(st.lists(st.tuples(_requests(), st.integers(0, 200)), max_size=12), _requests(), st.integers(2, 200))
def test_approvals_of_a_moment_ago_are_found(
    steps: list[tuple[RequestFacts, int]], asked: RequestFacts, many: int
) -> None:
    now, grants = 0, []
    many = many % 4 + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_records, "_MAX_GRANTS", _MOST)
        patch.setattr(policy_records, "_MAX_INDEXED", many)
        records = PolicyRecords(MemoryLedger(), Indexer())
        for facts, later in steps:
            now += later
            records.granted(facts, _NOW + dt.timedelta(seconds=now))
            grants.append((facts, now))
        looked = asyncio.run(records.look(asked, _NEEDS, _NOW + dt.timedelta(seconds=now)))
        assert _said(looked) == _expected(grants, asked, now)
        # Who was judged before all of them has to hear of as much, whenever they came.
        late = records.with_grants(Records(approved=dict.fromkeys(_NEEDS.periods, 0)), asked, _NEEDS, 0)
        every = [(facts, now) for facts, _ in grants]
        assert _said(late) == _expected(every, asked, now)
        assert records.with_grants(looked, asked, _NEEDS, records.granted_so_far) is looked
        # What is forgotten leaves nothing behind.
        for uid in "abcdefghij":
            records._forget(uid)
        assert not records._grants and not records._found


def test_as_many_approvals_are_counted_as_a_policy_may_ask_for() -> None:
    async def counted() -> int:
        ledger = MemoryLedger()
        for number in range(MAX_RATE):
            for kind in (APPROVED, INTENDED):
                await ledger.append(Entry(kind=kind, at=_NOW, signer="s", uid=f"u{number}", requester="u"))
        records = PolicyRecords(ledger, Indexer())
        asked = RequestFacts(
            name="csr", uid="new", signer_name="s", username="u", key_fingerprint="k", key_algorithm=""
        )
        found = await records.look(asked, RecordNeeds(periods=frozenset({3600})), _NOW)
        return found.approved[3600]

    assert asyncio.run(counted()) == MAX_RATE


def test_a_key_is_burnt_by_a_certificate_of_its_requester_or_its_node_only() -> None:
    async def said(*had: tuple[str, str], user: str = "alice") -> tuple[str, str]:
        ledger = MemoryLedger()
        for requester, node in had:
            await ledger.append(
                Entry(kind=ISSUED, at=_NOW, uid="o", request="old", requester=requester, node=node, key="k")
            )
        asked = RequestFacts(
            name="csr", uid="new", signer_name="s", username=user, key_fingerprint="k", key_algorithm=""
        )
        found = await PolicyRecords(ledger, Indexer()).look(asked, RecordNeeds(key=True), _NOW)
        return found.key, found.key_waits

    assert asyncio.run(said(("mallory", ""))) == ("", "old of mallory had a certificate for it")
    assert asyncio.run(said(("alice", ""), ("mallory", ""))) == ("old had a certificate for it", "")
    assert asyncio.run(said(("system:bootstrap:x", "n"), user="system:node:n")) == ("old had a certificate for it", "")
    assert asyncio.run(said(("system:bootstrap:x", "n"), user="alice"))[0] == ""


def test_requests_are_found_by_what_they_say_themselves() -> None:
    """Also after others were put between, and under what differs only in who asks."""
    indexer: Indexer[CertificateSigningRequest] = Indexer()
    PolicyRecords(MemoryLedger(), indexer)
    one = request_pem("system:node:a")
    other = build_request(ec.derive_private_key(7, ec.SECP256R1()), Subject(common_name="B.example."))
    asked = {
        "csr-a": (one, "system:bootstrap:x"),
        "csr-b": (other, "system:node:a"),
        "csr-c": (other, "system:node:c"),
        "csr-d": (b"none", "system:node:a"),
    }

    def put(name: str, request: bytes, username: str, version: str) -> None:
        made = csr("s", request, name)
        spec = msgspec.structs.replace(made.spec, username=username)
        metadata = msgspec.structs.replace(made.metadata, resource_version=version)
        indexer.put(msgspec.structs.replace(made, spec=spec, metadata=metadata))

    def found(index: str, value: str) -> list[str]:
        return sorted(each.metadata.name for each in indexer.by_index(index, value))

    def key(request: bytes) -> str:
        return hashlib.sha256(parse_pem(request).public_key.canonical_info).hexdigest()

    for version in "12":
        for name, (request, username) in asked.items():
            put(name, request, username, version)
        assert found(KEY_INDEX, key(one)) == ["csr-a"]
        assert found(KEY_INDEX, key(other)) == ["csr-b", "csr-c"]
        assert found(NODE_INDEX, "a") == ["csr-a", "csr-b"]
        assert found(NODE_INDEX, "c") == ["csr-c"]
        assert found(NAME_INDEX, "system:node:a") == ["csr-a"]
        assert found(NAME_INDEX, "b.example") == ["csr-b", "csr-c"]
    put("csr-a", other, "system:node:c", "3")
    assert found(KEY_INDEX, key(one)) == found(NAME_INDEX, "system:node:a") == []
    assert found(NODE_INDEX, "a") == ["csr-b"]
    assert found(NODE_INDEX, "c") == ["csr-a", "csr-c"]
    for name in asked:
        indexer.remove(name)
    assert not any(indexer.by_index(NODE_INDEX, node) for node in "ac")


def test_a_request_is_decoded_once_for_its_indexes_and_the_object_it_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def counted(asked: CertificateSigningRequest, request: CertificateRequest) -> RequestFacts:
        decoded.append(asked.metadata.name)
        return facts_of(asked, request)

    monkeypatch.setattr(policy_records, "facts_of", counted)
    indexer: Indexer[CertificateSigningRequest] = Indexer()
    PolicyRecords(MemoryLedger(), indexer)
    made = csr("s", request_pem("system:node:a"))
    indexer.put(made)
    indexer.put(msgspec.convert(msgspec.to_builtins(made), CertificateSigningRequest))
    assert decoded == ["csr-1"]
