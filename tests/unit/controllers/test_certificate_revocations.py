"""What a revocation reaches is found, told and written down; that it is gone, too."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import identity_world as world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CERTIFICATES_FOUND,
    IN_FORCE,
    MAX_NUMBERS,
    CertificateRevocation,
)
from kubevouch.controllers.certificate_revocations import (
    LIFTED_EVENT,
    MAX_LISTED,
    REVOKED_EVENT,
    RevocationReconciler,
)
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import Request
from kubevouch.ledger.entries import ISSUED, REVOKED, Entry, Query
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import authority, keys
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.revocation.lost_revocations import LIFTED
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing.cluster import Cluster

CONTROLLERS = ("csrapproving", "csrsigning", "certificaterevocations")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=CONTROLLERS) as running:
        running.run(own_kinds.ensure(running.server.client))
        yield running


def revoke(cluster: Cluster, name: str = "r1", reason: str = "keyCompromise", **revoked: Any) -> None:
    tree = {"metadata": {"name": name}, "spec": {"reason": reason, "revoked": revoked, "requestedBy": "me"}}
    obj = CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value
    cluster.run(cluster.server.client.create(CERTIFICATE_REVOCATIONS, obj))
    cluster.settle()


def stored(cluster: Cluster, name: str = "r1") -> CertificateRevocation:
    return cluster.get(CERTIFICATE_REVOCATIONS, name)


def joined(cluster: Cluster, name: str = "worker-1", token: str = "abcdef") -> str:
    posted = world.ask(cluster, world.token_user(token), world.node_request(name))
    assert world.outcome(cluster, posted) == "Approved,Issued"
    return posted


def test_a_token_reaches_what_it_has_let_in(cluster: Cluster) -> None:
    joined(cluster)
    joined(cluster, "worker-2", "uvwxyz")
    revoke(cluster, tokens=["abcdef"])
    status = stored(cluster).status
    assert (status.matched, len(status.serials[0].numbers), len(status.certificates)) == (1, 1, 1)
    told = [(each.type, each.status) for each in status.conditions]
    assert told == [("InForce", "True"), (CERTIFICATES_FOUND, "True")]
    assert status.conditions[1].message == "1 certificate: 1 from the ledger, 1 from requests, 1 from both"
    assert cluster.server.revocations.serials(bytes.fromhex(status.serials[0].issuer))


def test_requests_of_before_are_denied_or_not_signed(cluster: Cluster) -> None:
    """They wait for an approval, or for a signature, while who has asked is revoked."""
    by_hand = world.ask(cluster, world.node_user("worker-1"), world.node_request("worker-1"), signer=world.NODE_SERVING)
    key = world.new_key()
    digest = hashlib.sha256(keys.public_key_of(key).canonical_info).hexdigest()
    revoke(cluster, keys=[digest], requesters=["system:node:worker-1"])
    world.approve(cluster, by_hand)
    assert "Failed: its requester system:node:worker-1 is revoked" in world.outcome(cluster, by_hand)
    posted = world.ask(cluster, world.token_user(), world.node_request("worker-2", key))
    assert world.outcome(cluster, posted).startswith("Denied: its key is revoked: r1 ")


def test_it_is_told_that_it_came_and_that_it_is_gone(cluster: Cluster) -> None:
    revoke(cluster, reason="certificateHold", nodes=["worker-1"])
    cluster.delete(CERTIFICATE_REVOCATIONS, "r1")
    cluster.settle()
    told = {(event.reason, event.type) for event in cluster.list(EVENTS) if event.involved_object.name == "r1"}
    assert told == {(REVOKED_EVENT, WARNING), (LIFTED_EVENT, NORMAL)}


def test_what_was_deleted_while_nobody_looked_is_written_down(cluster: Cluster) -> None:
    server, ledger = cluster.server, MemoryLedger()
    events = EventRecorder(server.client, server.clock, "test")
    reconciler = RevocationReconciler(server.client, server.revocations, ledger, server.clock, events)

    def recorded() -> list[str]:
        found = cluster.run(ledger.find(Query(kinds=frozenset({REVOKED}))))
        return [each.entry.reason for each in found]

    revoke(cluster, reason="certificateHold", nodes=["worker-1"])
    for _ in range(2):
        cluster.run(reconciler.reconcile(Request("r1")))
        assert recorded() == ["certificateHold"]
    cluster.delete(CERTIFICATE_REVOCATIONS, "r1")
    for _ in range(2):
        cluster.run(reconciler.reconcile(Request("")))
        assert recorded() == ["certificateHold", LIFTED]


def test_it_has_ended_when_no_certificate_is_left(cluster: Cluster) -> None:
    joined(cluster)
    revoke(cluster, nodes=["worker-1"])
    assert stored(cluster).status.matched == 1
    cluster.clock.advance(366 * 86400)
    cluster.settle()
    status = stored(cluster).status
    assert status.matched == 0 and [each.type for each in status.conditions] == ["InForce", CERTIFICATES_FOUND, "Ended"]


ISSUER, OTHER_ISSUER, KEY = "ab" * 20, "ef" * 20, "cd" * 32
PERIOD = {"since": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "revoked",
    [
        {
            "serials": [
                {"issuer": ISSUER, "numbers": [f"{number:x}" for number in range(1, MAX_LISTED + 1)]},
                {"issuer": OTHER_ISSUER, "numbers": [f"{MAX_LISTED + 1:x}"]},
            ]
        },
        {"periods": [PERIOD]},
        {"keys": [KEY]},
        {"requesters": ["alice"]},
        {"users": ["alice"], "keys": [KEY]},
    ],
)
def test_more_than_is_listed_is_not_said_to_be_in_force(apart: Cluster, revoked: dict[str, Any]) -> None:
    """Deny webhooks and deny lists go by the status: what is not in it passes them."""
    cluster = apart
    server, ledger = cluster.server, MemoryLedger()
    now, year = server.clock.now(), dt.timedelta(days=365)
    entries = (
        Entry(kind=ISSUED, at=now, serial=f"{number:x}", issuer_key=ISSUER if number <= MAX_LISTED else OTHER_ISSUER,
              key=KEY, requester="alice", subject="alice", not_before=now, not_after=now + year,
              certificate=b"%d" % number)
        for number in range(1, MAX_LISTED + 2)
    )  # fmt: skip
    cluster.run(ledger.append(*entries))
    revoke(cluster, **revoked)
    events = EventRecorder(server.client, server.clock, "test")
    reconciler = RevocationReconciler(server.client, server.revocations, ledger, server.clock, events)
    cluster.run(reconciler.reconcile(Request("r1")))
    status = stored(cluster).status
    assert (status.matched, len(status.certificates)) == (MAX_LISTED + 1, MAX_LISTED)
    assert [(each.status, each.reason) for each in status.conditions if each.type == IN_FORCE] == [("False", "TooMany")]
    # The leader that follows knows none of them, and does not say that all are refused.
    cluster.run(_reconciler(cluster).reconcile(Request("r1")))
    status = stored(cluster).status
    assert (status.matched, len(status.certificates)) == (MAX_LISTED + 1, MAX_LISTED)
    assert [(each.status, each.reason) for each in status.conditions if each.type == IN_FORCE] == [("False", "TooMany")]


def test_one_object_names_no_more_than_is_listed() -> None:
    assert MAX_NUMBERS <= MAX_LISTED


@pytest.mark.parametrize(
    "revoked", [{"serials": [{"issuer": ISSUER, "numbers": ["1"]}]}, {"keys": [KEY]}, {"periods": [PERIOD]}]
)
def test_what_only_the_api_server_refuses_is_told(cluster: Cluster, revoked: dict[str, Any]) -> None:
    revoke(cluster, **revoked)
    (condition,) = (each for each in stored(cluster).status.conditions if each.type == IN_FORCE)
    assert condition.status == "True" and "and no deny webhook or deny list" in condition.message


# ------------------------------------------------------------------ several ledgers


def _entry(cluster: Cluster, serial: int, lasts: dt.timedelta = dt.timedelta(days=365)) -> Entry:
    """Of a certificate that the token has let in."""
    now = cluster.server.clock.now()
    return Entry(
        kind=ISSUED, at=now, token="abcdef", serial=f"{serial:x}", issuer_key=ISSUER, subject=f"system:node:w-{serial}",
        node=f"w-{serial}", requester="system:bootstrap:abcdef", key=KEY, certificate=b"%d" % serial,
        not_before=now, not_after=now + lasts,
    )  # fmt: skip


def _reconciler(cluster: Cluster, *entries: Entry, stands_by: bool = False) -> RevocationReconciler:
    """Of a server with a ledger of its own."""
    server, ledger = cluster.server, MemoryLedger()
    cluster.run(ledger.append(*entries))
    events = EventRecorder(server.client, server.clock, "test")
    return RevocationReconciler(server.client, server.revocations, ledger, server.clock, events, stands_by=stands_by)


@pytest.fixture
def apart() -> Iterator[Cluster]:
    """Where a test has the controllers."""
    with Cluster() as running:
        running.run(own_kinds.ensure(running.server.client))
        yield running


def _reached(cluster: Cluster) -> list[str]:
    return [number for group in stored(cluster).status.serials for number in group.numbers]


def test_another_leader_takes_nothing_back(apart: Cluster) -> None:
    """Each server that has led has a ledger of its own: what one of them has found counts on."""
    first = _reconciler(apart, _entry(apart, 1), _entry(apart, 2, dt.timedelta(hours=1)))
    second = _reconciler(apart, _entry(apart, 3))
    revoke(apart, tokens=["abcdef"])
    apart.run(first.reconcile(Request("r1")))
    assert _reached(apart) == ["1", "2"]
    apart.run(second.reconcile(Request("r1")))
    assert _reached(apart) == ["1", "2", "3"]
    status = stored(apart).status
    assert (status.matched, len(status.certificates)) == (3, 3)
    issuer = bytes.fromhex(ISSUER)
    assert all(apart.server.revocations.serial(issuer, number) for number in (1, 2, 3))
    # Nobody writes again, and again.
    for each in (first, second):
        apart.run(each.reconcile(Request("r1")))
    assert stored(apart).status.serials == status.serials
    # What has ended goes when who knows it looks; nobody else can say that it has.
    apart.clock.advance(7200)
    apart.run(second.reconcile(Request("r1")))
    assert _reached(apart) == ["1", "2", "3"]
    apart.run(first.reconcile(Request("r1")))
    assert sorted(_reached(apart)) == ["1", "3"]


def test_who_stands_by_adds_what_only_he_knows_and_does_nothing_else(apart: Cluster) -> None:
    leading = _reconciler(apart, _entry(apart, 1))
    beside = _reconciler(apart, _entry(apart, 7), stands_by=True)
    revoke(apart, tokens=["abcdef"])
    apart.run(leading.reconcile(Request("r1")))
    before = stored(apart).status
    apart.run(beside.reconcile(Request("r1")))
    assert _reached(apart) == ["1", "7"]
    assert apart.server.revocations.serial(bytes.fromhex(ISSUER), 7)
    assert stored(apart).status.conditions == before.conditions
    for _ in range(2):
        apart.run(leading.reconcile(Request("r1")))
        settled = stored(apart).metadata.resource_version
        apart.run(beside.reconcile(Request("r1")))
        assert stored(apart).metadata.resource_version == settled
    assert stored(apart).status.matched == 2
    told = [event.reason for event in apart.list(EVENTS) if event.involved_object.name == "r1"]
    assert told == [REVOKED_EVENT]
    apart.run(beside.reconcile(Request("gone")))
    apart.run(beside.reconcile(Request("")))


# ------------------------------------------------------------------ signed by somebody else


@pytest.fixture
def foreign() -> Iterator[Cluster]:
    """Where another program approves and signs, which writes no ledger."""
    with Cluster(controllers=("certificaterevocations",)) as running:
        running.run(own_kinds.ensure(running.server.client))
        yield running


def _signed(cluster: Cluster, name: str, key: PrivateKey, node: str) -> Certificate:
    """What that program puts into the request."""
    now = cluster.server.clock.now()
    ca = authority.create_authority("kubernetes", world.new_key(), now=now - dt.timedelta(days=1))
    leaf = authority.issue_leaf(
        ca, authority.LeafSpec(common_name=f"system:node:{node}", purposes=("client auth",)), key, now=now
    )
    csr = cluster.get(CERTIFICATE_SIGNING_REQUESTS, name)
    status = msgspec.structs.replace(csr.status, certificate=leaf.pem())
    changed = msgspec.structs.replace(csr, status=status)
    cluster.run(cluster.server.client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="status"))
    cluster.settle()
    return leaf


def _told(cluster: Cluster, name: str) -> tuple[str, str]:
    (found,) = (each for each in stored(cluster, name).status.conditions if each.type == CERTIFICATES_FOUND)
    return found.reason, found.message


def test_what_another_program_signs_is_found_as_soon_as_it_is_there(foreign: Cluster) -> None:
    """By its requester, its token, its node, its key; also by the revocation that came before the signature."""
    key = world.new_key()
    posted = world.ask(foreign, world.token_user(), world.node_request("worker-1", key))
    world.approve(foreign, posted)
    digest = hashlib.sha256(keys.public_key_of(key).canonical_info).hexdigest()
    by: dict[str, dict[str, Any]] = {
        "token": {"tokens": ["abcdef"]}, "requester": {"requesters": ["system:bootstrap:abcdef"]},
        "node": {"nodes": ["worker-1"]}, "user": {"users": ["system:node:worker-1"]}, "key": {"keys": [digest]},
        "other": {"tokens": ["uvwxyz"]},
    }  # fmt: skip
    for name, targets in by.items():
        revoke(foreign, name, **targets)
        reason, message = _told(foreign, name)
        assert reason == "NothingFound" and "Kubernetes deletes a request an hour after" in message
    leaf = _signed(foreign, posted, key, "worker-1")
    for name in by.keys() - {"other"}:
        assert stored(foreign, name).status.certificates == [leaf.fingerprint().hex()], name
        assert _told(foreign, name) == ("Found", "1 certificate: 1 from requests")
    assert stored(foreign, "other").status.certificates == []
    # What was found once stays so when the request is gone.
    foreign.delete(CERTIFICATE_SIGNING_REQUESTS, posted)
    foreign.settle()
    assert stored(foreign, "token").status.matched == 1


def test_what_is_asked_for_later_is_not_reached(foreign: Cluster) -> None:
    revoke(foreign, tokens=["abcdef"])
    foreign.clock.advance(60)
    key = world.new_key()
    posted = world.ask(foreign, world.token_user(), world.node_request("worker-1", key))
    world.approve(foreign, posted)
    _signed(foreign, posted, key, "worker-1")
    assert stored(foreign).status.certificates == []
