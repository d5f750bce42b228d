"""Several sources of certificates as one: nothing that one of them knows is lost, and it is said what is from where."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from typing import Any

import identity_world as world
from asynctest import async_test
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.catalog import NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import RevocationTargets
from kubevouch.ledger.entries import ISSUED, Entry, Query
from kubevouch.ledger.interface import ReadableLedger
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import authority, keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.policy import BACKDATE
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.records.certificate_ledger import IssuedCertificate
from kubevouch.revocation import known
from kubevouch.revocation.known import (
    IDENTITIES,
    LEDGER,
    RECORDS,
    REQUESTS,
    HalfKeys,
    KnownCertificate,
    KnownCertificates,
    Source,
    counted,
    fingerprint_of,
)
from kubevouch.revocation.reach import reached

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY, SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)
CA = authority.create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - 99 * DAY)


def entry(serial: str, at: dt.datetime = NOW - DAY, **fields: Any) -> Entry:
    given: dict[str, Any] = {
        "kind": ISSUED, "at": at, "serial": serial, "issuer_key": "aa", "node": "a", "subject": "system:node:a",
        "requester": "system:node:a", "key": hashlib.sha256(serial.encode()).hexdigest(), "not_after": NOW + 90 * DAY,
        "certificate": serial.encode(),
    }  # fmt: skip
    return Entry(**(given | fields))


def record(serial: str, token: str = "", at: dt.datetime = NOW - DAY, name: str = "system:node:a") -> Entry:
    return known.of_record(
        IssuedCertificate(
            common_name=name, signer_name="s", serial=serial, not_before=at - BACKDATE, not_after=NOW + 90 * DAY,
            authority="aa", public_key=hashlib.sha256(serial.encode()).hexdigest()[:32], token=token,
        )
    )  # fmt: skip


async def together(**entries: tuple[Entry, ...]) -> KnownCertificates:
    sources = []
    for name, given in entries.items():
        ledger = MemoryLedger()
        await ledger.append(*given)
        shown: ReadableLedger = HalfKeys(ledger) if name == "records" else ledger
        sources.append(
            Source({"ledger": LEDGER, "requests": REQUESTS, "records": RECORDS}.get(name, IDENTITIES), shown)
        )
    return KnownCertificates(*sources)


async def found(everything: KnownCertificates, until: dt.datetime = NOW, **targets: Any) -> list[KnownCertificate]:
    return await reached(everything, RevocationTargets(**targets), until, now=NOW)


def serials(known_certificates: list[KnownCertificate]) -> list[str]:
    return [each.entry.serial for each in known_certificates]


@async_test
async def test_with_a_ledger_never_fewer_are_found_than_without() -> None:
    requests = (entry("1"), entry("2"), entry("3"))
    alone = await found(await together(requests=requests), nodes=["a"])
    both = await found(await together(ledger=(entry("3"), entry("4")), requests=requests), nodes=["a"])
    assert set(serials(alone)) < set(serials(both)) == {"1", "2", "3", "4"}
    assert counted(alone) == "3 certificates: 3 from requests"
    assert counted(both) == "4 certificates: 2 from the ledger, 3 from requests, 1 from both"
    assert (
        counted([]) == "no certificate"
        and counted(both[:1]) == "1 certificate: 1 from the ledger, 1 from requests, 1 from both"
    )


@async_test
async def test_what_one_source_does_not_say_another_does() -> None:
    """A record names the token and not the certificate, a request of a renewal the certificate and not the token."""
    everything = await together(ledger=(), requests=(entry("1"),), records=(record("1", "abcdef"),))
    (one,) = await found(everything, tokens=["abcdef"])
    assert fingerprint_of(one.entry) == fingerprint_of(entry("1")) and one.sources == (REQUESTS, RECORDS)
    # By its whole key, of which a record has half.
    key = entry("1").key
    assert serials(await found(await together(ledger=(), records=(record("1"),)), keys=[key])) == ["1"]
    assert fingerprint_of(record("1")) == ""


@async_test
async def test_who_has_asked_is_believed_of_whom_has_seen_it() -> None:
    """A record has the subject in place of who has asked."""
    everything = await together(
        requests=(entry("1", subject="alice", node="", requester="bob"),), records=(record("1", name="alice"),)
    )
    assert serials(await found(everything, requesters=["bob"])) == ["1"]
    assert serials(await found(everything, requesters=["alice"])) == []


@async_test
async def test_a_machine_is_the_tokens_that_let_it_in_whoever_knows_that() -> None:
    joined = entry("1", NOW - 5 * DAY, requester="system:bootstrap:abcdef", token="abcdef", not_after=NOW - DAY)
    renewed = entry("2", NOW - 2 * DAY)
    assert serials(await found(await together(ledger=(joined,), requests=(renewed,)), tokens=["abcdef"])) == ["2"]
    again = entry("3", NOW - 3 * DAY, requester="system:bootstrap:uvwxyz", token="uvwxyz")
    everything = await together(ledger=(joined,), requests=(renewed, again))
    assert serials(await found(everything, tokens=["abcdef"])) == []
    assert serials(await found(everything, tokens=["uvwxyz"])) == ["3", "2"]
    # Its request is gone, and what it has proven tells as who it came.
    tree = {
        "metadata": {"name": "a", "uid": "u"},
        "status": {"requester": "system:bootstrap:abcdef", "firstSeen": "2031-02-01T00:00:00Z"},
    }
    first = known.of_identity(NODE_IDENTITIES.codec.from_tree(tree).value)
    assert first is not None
    everything = await together(requests=(renewed,), identities=(first,))
    assert serials(await found(everything, tokens=["abcdef"])) == ["2"]
    assert serials(await found(everything, nodes=["a"])) == ["2"]


@async_test
async def test_what_was_asked_for_in_time_counts_though_it_was_signed_later() -> None:
    late = entry("1", NOW, created=NOW - DAY)
    assert serials(await found(await together(requests=(late,)), NOW - 2 * SECOND, nodes=["a"])) == ["1"]
    assert serials(await found(await together(requests=(entry("1", NOW),)), NOW - 2 * SECOND, nodes=["a"])) == []


@async_test
async def test_two_of_one_number_are_two() -> None:
    """Who may sign for a name may write any certificate into a request."""
    everything = await together(ledger=(entry("1"),), requests=(entry("1", certificate=b"forged"),))
    assert [fingerprint_of(each.entry) for each in await found(everything, nodes=["a"])] == [
        fingerprint_of(entry("1")), fingerprint_of(entry("1", certificate=b"forged"))
    ]  # fmt: skip


@async_test
async def test_fingerprints_are_found_as_a_ledger_grows() -> None:
    ledger = MemoryLedger()
    everything = KnownCertificates.of(ledger)
    wanted = [fingerprint_of(entry(each)) for each in ("1", "2")]
    await ledger.append(entry("1"), entry("5"))
    for _ in range(2):
        assert serials(await found(everything, certificates=wanted)) == ["1"]
    await ledger.append(entry("2"), entry("1", issuer_key="bb", certificate=b"other"))
    assert sorted(serials(await found(everything, certificates=wanted))) == ["1", "2"]


@async_test
async def test_several_are_asked_as_one_ledger() -> None:
    everything = await together(ledger=(entry("1", NOW - 3 * DAY),), requests=(entry("2", NOW - 4 * DAY), entry("1")))
    query = Query(kinds=frozenset({ISSUED}), node="a")
    assert [each.entry.serial for each in await everything.find(query)] == ["2", "1"]
    newest = Query(kinds=frozenset({ISSUED}), node="a", newest_first=True, limit=1)
    assert [(each.sequence, each.entry.serial) for each in await everything.find(newest)] == [(1, "1")]
    assert [each.sequence for each in await everything.find(Query(node="a", after=0))] == [1]
    assert [each.sequence for each in await everything.find(Query(node="a", before=1))] == [0]


# ------------------------------------------------------------------ requests


def issued(asked: PrivateKey, certified: PrivateKey) -> CertificateSigningRequest:
    spec = authority.LeafSpec(common_name="system:node:a", organizations=("system:nodes",), purposes=("client auth",))
    leaf = authority.issue_leaf(CA, spec, certified, now=NOW)
    tree = {
        "metadata": {"name": "csr-1", "uid": "u", "creationTimestamp": "2031-03-01T11:00:00Z"},
        "spec": {
            "request": base64.b64encode(world.node_request("a", asked)).decode(), "signerName": world.NODE_CLIENT,
            "username": "system:bootstrap:abcdef",
        },
        "status": {"certificate": base64.b64encode(leaf.pem()).decode()},
    }  # fmt: skip
    csr = CERTIFICATE_SIGNING_REQUESTS.codec.from_tree(tree).value
    assert isinstance(csr, CertificateSigningRequest)
    return csr


def test_what_a_request_says_of_its_certificate() -> None:
    key = world.new_key()
    said = known.of_request(issued(key, key))
    assert said is not None
    assert (said.token, said.node, said.requester) == ("abcdef", "a", "system:bootstrap:abcdef")
    assert said.issuer_key and known.asked_at(said) == NOW - dt.timedelta(hours=1)


def test_a_certificate_of_another_key_is_not_the_requests() -> None:
    """An API server lets whoever may sign write any certificate: a stranger's would be revoked with the requester's."""
    assert known.of_request(issued(world.new_key(), world.new_key())) is None
