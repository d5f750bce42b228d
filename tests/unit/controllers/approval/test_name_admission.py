"""Who gets a node's name, out of what the caches hold; the rules themselves are in the tests of policy/node_names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from controller_world import answer
from kubevouch import wellknown
from kubevouch.api.catalog import LEASES
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.api.core_v1 import ConfigMap, Node, Secret
from kubevouch.api.core_v1.nodes import NodeCondition, NodeStatus
from kubevouch.client.cache.indexer import Indexer
from kubevouch.client.cache.lister import Lister
from kubevouch.controllers.approval import name_admission
from kubevouch.controllers.approval.name_admission import (
    KEY_INDEX,
    NODE_INDEX,
    NameAdmission,
    NameCaches,
    NameRefusedError,
)
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.interface import IgnorableError
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import TOKEN_BUDGET, IssuedCertificate, key_digest
from kubevouch.records.token_bounds import NODE_NAMES_ANNOTATION, TOKEN_UID_EXTRA
from kubevouch.revocation import node_records
from kubevouch.revocation.node_records import NodeRecord
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CA = ThrowawayCA()
TAKEN, REPLAYED = "NodeNameTaken", "KeyOfAnotherRequester"
CLIENT_KUBELET = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
EMPTY = CertificateSigningRequestSpec(signer_name=CLIENT_KUBELET)
A, B = "system:bootstrap:aaaaaa", "system:bootstrap:bbbbbb"


@cache
def pem(node: str, key: int) -> bytes:
    subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
    return build_request(ec.derive_private_key(key, ec.SECP256R1()), subject)


def asks(
    uid: str,
    user: str = A,
    *conditions: str,
    key: int = 1,
    node: str = "n1",
    certificate: bytes = b"",
    age: int = 0,
    token_uid: str = "",
    signer: str = CLIENT_KUBELET,
) -> CertificateSigningRequest:
    """A request of ``age`` seconds; the resourceVersion is the number in its UID."""
    spec = CertificateSigningRequestSpec(
        request=pem(node, key),
        signer_name=signer,
        username=user,
        extra={TOKEN_UID_EXTRA: [token_uid]} if token_uid else {},
    )
    metadata = ObjectMeta(
        name=uid, uid=uid, creation_timestamp=Time.of(NOW - dt.timedelta(seconds=age)), resource_version=uid[1:]
    )
    decided = [CertificateSigningRequestCondition(type=kind, status="True") for kind in conditions]
    status = CertificateSigningRequestStatus(conditions=decided, certificate=certificate)
    return CertificateSigningRequest(metadata=metadata, spec=spec, status=status)


def issued(not_after: dt.datetime = NOW + dt.timedelta(days=1)) -> bytes:
    """A certificate of another key than any request has."""
    day = dt.timedelta(days=1)
    return CA.issue("system:node:n1", names=(), not_before=NOW - 2 * day, not_after=not_after).certificate


class Server:
    """Answers the read of a Lease."""

    def __init__(self, lease: Lease | APIStatusError) -> None:
        self.lease = lease
        self.reads = 0

    async def get(self, resource: Any, name: str, namespace: str) -> Lease:
        assert (resource, name, namespace) == (LEASES, "n1", "kube-node-lease")
        self.reads += 1
        if isinstance(self.lease, APIStatusError):
            raise self.lease
        return self.lease


def renewed(seconds_ago: int) -> Lease:
    renew_time = MicroTime.of(NOW - dt.timedelta(seconds=seconds_ago))
    return Lease(metadata=ObjectMeta(name="n1"), spec=LeaseSpec(renew_time=renew_time))


class Cluster:
    def __init__(
        self,
        *requests: CertificateSigningRequest,
        node: Node | None = None,
        lease: Lease | APIStatusError | None = None,
        takeover: bool = False,
        records: Sequence[ConfigMap] = (),
    ) -> None:
        csrs: Indexer[CertificateSigningRequest] = Indexer(
            {NODE_INDEX: name_admission.node_names_of_request, KEY_INDEX: name_admission.keys_of_request}
        )
        for request in requests:
            csrs.put(request)
        nodes: Indexer[Node] = Indexer()
        if node is not None:
            nodes.put(node)
        config_maps: Indexer[ConfigMap] = Indexer()
        for each in records:
            config_maps.put(each)
        self.records = config_maps
        self.csrs = csrs
        self.server = Server(lease or answer(404))
        client: Any = self.server
        secrets: Indexer[Secret] = Indexer()
        bound = ObjectMeta(
            name="bootstrap-token-aaaaaa",
            namespace="kube-system",
            uid="t-1",
            annotations={NODE_NAMES_ANNOTATION: "n1"},
        )
        secrets.put(Secret(metadata=bound, type=wellknown.BOOTSTRAP_TOKEN_SECRET))
        caches = NameCaches(Lister(csrs), Lister(nodes), RecordMaps(config_maps))
        tokens = TokenAdmission(client, Lister(secrets))
        self.names = NameAdmission(client, caches, tokens, FakeClock(NOW), takeover=takeover)

    async def decide(self, csr: CertificateSigningRequest, *, admit: bool = False) -> None:
        wanted = x509_request.parse_pem(csr.spec.request or b"")
        await (self.names.admit if admit else self.names.verify)(csr, wanted)

    async def outcome(self, csr: CertificateSigningRequest, *, admit: bool = False) -> str:
        """``admitted``, ``waits``, or the reason of the refusal."""
        try:
            await self.decide(csr, admit=admit)
        except NameRefusedError as err:
            return err.reason
        except IgnorableError:
            return "waits"
        return "admitted"


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        (asks("c1", A), REPLAYED),
        (asks("c1", "jane"), REPLAYED),
        (asks("c1", B), "admitted"),
        (asks("c1", A, "Denied"), "admitted"),
        (asks("c1", A, "Approved", "Failed"), "admitted"),
        (asks("c1", A, key=2), "admitted"),
        (asks("c1", A, signer="example.com/a"), "admitted"),
        (asks("c8", A), "admitted"),
        (asks("c8", A, age=-1), "admitted"),
        (asks("c8", A, age=1), REPLAYED),
        (asks("c8", A, "Approved"), REPLAYED),
        (asks("c8", A, certificate=issued(), node="n2"), REPLAYED),
        (asks("c", A, age=0), REPLAYED),
        (asks("c5", A), "admitted"),
    ],
)
@async_test
async def test_the_first_who_came_with_a_key_has_it(other: CertificateSigningRequest, outcome: str) -> None:
    # Those that do not count hide none that does.
    harmless = asks("c0", B)
    assert await Cluster(harmless, other).outcome(asks("c5", B)) == outcome


@pytest.mark.parametrize("user", ["system:node:n1", "kubevouch:recovery:n1"])
@async_test
async def test_a_node_has_proven_that_it_is_the_one(user: str) -> None:
    mine = asks("c1", A, key=2, certificate=issued())
    assert await Cluster(asks("c2", A), mine).outcome(asks("c5", user)) == "admitted"


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        (asks("c1", A, "Approved", key=2, certificate=issued()), TAKEN),
        (asks("c1", A, "Approved", key=2, certificate=issued(NOW)), "admitted"),
        (asks("c1", A, "Approved", key=2, certificate=b"unreadable"), "admitted"),
        (asks("c1", A, "Approved", key=2, certificate=issued(), node="n2"), "admitted"),
        (asks("c1", A, "Approved", key=2), "waits"),
        (asks("c1", A, key=2), "admitted"),
        (asks("c1", A, "Approved", "Failed", key=2), "admitted"),
        (asks("c1", A, "Approved", "Denied", key=2), "admitted"),
        (asks("c1", B, "Approved", key=1), "admitted"),
    ],
)
@async_test
async def test_a_name_belongs_to_the_machine_whose_key_was_certified(
    other: CertificateSigningRequest, outcome: str
) -> None:
    own = asks("c5", B)
    assert await Cluster(own, other).outcome(own) == outcome
    assert await Cluster(other, takeover=True).outcome(asks("c5", B)) == "admitted"
    # Whoever may let nodes in has been given that right.
    assert await Cluster(other).outcome(asks("c5", "jane", key=3)) == "admitted"


@async_test
async def test_of_two_at_once_the_second_waits() -> None:
    """Though the cache has not heard of the first one's approval."""
    first, second = asks("c1", A), asks("c2", B, key=2)
    cluster = Cluster(first, second)
    assert await cluster.outcome(first) == "admitted"
    assert await cluster.outcome(second) == "admitted"
    assert await cluster.outcome(first, admit=True) == "admitted"
    assert await cluster.outcome(second, admit=True) == "waits"
    assert await cluster.outcome(first) == "admitted"
    cluster.csrs.put(asks("c1", A, "Denied"))
    assert await cluster.outcome(second, admit=True) == "admitted"


@async_test
async def test_a_token_for_the_very_name_takes_it() -> None:
    held = asks("c1", B, "Approved", key=2, certificate=issued())
    assert await Cluster(held).outcome(asks("c5", A, token_uid="t-1")) == "admitted"
    assert await Cluster(held).outcome(asks("c5", A)) == TAKEN


NODE = Node(metadata=ObjectMeta(name="n1"))
GOING = Node(metadata=ObjectMeta(name="n1", deletion_timestamp=Time.of(NOW)))


@pytest.mark.parametrize(
    ("node", "lease", "outcome", "reads"),
    [
        (NODE, renewed(10), TAKEN, 1),
        (NODE, renewed(3600), "admitted", 1),
        (NODE, None, "admitted", 1),
        (GOING, renewed(10), "admitted", 0),
        (None, renewed(10), "admitted", 0),
    ],
)
@async_test
async def test_a_name_belongs_to_whoever_keeps_its_node_alive(
    node: Node | None, lease: Lease | None, outcome: str, reads: int
) -> None:
    cluster = Cluster(node=node, lease=lease)
    assert await cluster.outcome(asks("c5")) == outcome
    assert cluster.server.reads == reads
    for csr in (asks("c5", "system:node:n1"), asks("c5", "jane"), asks("c5", A, token_uid="t-1")):
        assert await cluster.outcome(csr) == "admitted"
    assert cluster.server.reads == reads


@async_test
async def test_a_lease_that_cannot_be_read_is_none_that_is_not_there() -> None:
    with pytest.raises(APIStatusError, match="answer 500"):
        await Cluster(node=NODE, lease=answer(500)).outcome(asks("c5"))


@async_test
async def test_every_request_for_the_name_counts() -> None:
    taken = asks("c1", A, "Approved", key=2, certificate=issued())
    ended = asks("c2", A, "Approved", key=3, certificate=issued(NOW))
    approved, other = asks("c3", A, "Approved", key=4), asks("c4", A, "Approved", key=5)
    for order in ((taken, ended), (ended, taken)):
        assert await Cluster(*order).outcome(asks("c5", B)) == TAKEN
    for mine in ((approved, other), (other, approved)):
        assert await Cluster(*mine).outcome(asks("c5", A, key=4)) == "admitted"
    assert await Cluster(ended, approved).outcome(asks("c5", B)) == "waits"


@async_test
async def test_what_is_said_to_whoever_does_not_get_the_name() -> None:
    taken = asks("c1", A, "Approved", key=2, certificate=issued())
    for node, what in ((None, "there is no Node to delete"), (NODE, "delete its Node (kubectl delete node n1)")):
        with pytest.raises(NameRefusedError) as refused:
            await Cluster(taken, node=node).decide(asks("c5", B))
        assert str(refused.value).startswith("the name n1 belongs to another machine: it has a certificate")
        assert what in str(refused.value)
    with pytest.raises(IgnorableError, match=r"^another machine is about to become n1$"):
        await Cluster(asks("c1", A, "Approved", key=2)).decide(asks("c5", B))


READY = msgspec.structs.replace(
    NODE, status=NodeStatus(conditions=[NodeCondition(type="Ready", status="True", last_heartbeat_time=Time.of(NOW))])
)


@async_test
async def test_a_node_that_is_ready_is_alive() -> None:
    assert await Cluster(node=READY).outcome(asks("c5")) == TAKEN


# ------------------------------------------------------------------ the ledger, and records of names


def ledger(public_key: str, not_after: dt.datetime = NOW + dt.timedelta(days=1), node: str = "n1") -> ConfigMap:
    """The ConfigMap in which the ledger has the certificate of a node, issued an hour ago."""
    entry = IssuedCertificate(
        common_name=f"system:node:{node}",
        signer_name=CLIENT_KUBELET,
        serial="1",
        not_before=NOW - dt.timedelta(hours=1, minutes=5),
        not_after=not_after,
        public_key=public_key,
    )
    metadata = ObjectMeta(name=f"{certificate_ledger.PREFIX}{entry.key[0]}", namespace="kube-system")
    return ConfigMap(metadata=metadata, data=certificate_ledger.encode({entry.key: entry}))


def full(config_map: ConfigMap, token: str) -> ConfigMap:
    totals = msgspec.json.encode({"bytes": 1, "tokens": {token: TOKEN_BUDGET}}).decode()
    annotations = {certificate_ledger.TOTALS_ANNOTATION: totals}
    changed: ConfigMap = replace_metadata(config_map, annotations=annotations)
    return changed


def record(**moments: Any) -> ConfigMap:
    metadata = ObjectMeta(name=f"{node_records.PREFIX}{node_records.shard_of('n1')}", namespace="kube-system")
    data = node_records.encode({"n1": NodeRecord(until=NOW + dt.timedelta(days=1), **moments)})
    return ConfigMap(metadata=metadata, data=data)


MINE = key_digest(x509_request.parse_pem(pem("n1", 1)).public_key)
AN_HOUR_AGO = NOW - dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        ([ledger("another")], TAKEN),
        ([ledger(MINE)], "admitted"),
        ([ledger("another", NOW)], "admitted"),
        ([ledger("another", node="n2")], "admitted"),
        ([ledger("another"), record(released=AN_HOUR_AGO)], TAKEN),
        ([ledger("another"), record(released=AN_HOUR_AGO + SECOND)], "admitted"),
        ([record(locked=NOW)], "NodeLockedOut"),
    ],
)
@async_test
async def test_what_was_issued_and_what_became_of_the_node_is_remembered(
    records: list[ConfigMap], outcome: str
) -> None:
    assert await Cluster(records=records).outcome(asks("c5")) == outcome


@pytest.mark.parametrize(("locked", "outcome"), [(AN_HOUR_AGO, "NodeLockedOut"), (AN_HOUR_AGO - SECOND, "admitted")])
@async_test
async def test_a_node_that_was_locked_out_comes_back_with_what_was_issued_since(
    locked: dt.datetime, outcome: str
) -> None:
    cluster = Cluster(records=[ledger("another"), record(locked=locked)])
    assert await cluster.outcome(asks("c5", "system:node:n1")) == outcome


@async_test
async def test_what_was_issued_and_is_in_no_ledger_yet_counts_from_its_time() -> None:
    """The certificate begins five minutes before it was issued."""
    day = dt.timedelta(days=1)
    held = asks("c1", A, "Approved", key=2, certificate=issued())
    begins = NOW - 2 * day
    for released, outcome in ((begins, TAKEN), (begins + dt.timedelta(minutes=5) + SECOND, "admitted")):
        assert await Cluster(held, records=[record(released=released)]).outcome(asks("c5", B)) == outcome


@async_test
async def test_a_token_that_has_filled_its_part_of_the_ledger_waits_and_no_other() -> None:
    cluster = Cluster(records=[full(ledger("another", node="n2"), "aaaaaa")])
    with capture_logs() as lines:
        for _ in range(2):
            assert await cluster.outcome(asks("c5", A), admit=True) == "waits"
    assert [(line["event"], line["token"]) for line in lines] == [("machines wait for room in the ledger", "aaaaaa")]
    assert "the token aaaaaa has let in" in lines[0]["why"]
    assert await cluster.outcome(asks("c5", B)) == "admitted"
    assert await cluster.outcome(asks("c5", "system:node:n1")) == "admitted"
    # Who is in the ledger takes no more room of it.
    again = Cluster(records=[full(ledger(MINE), "aaaaaa")])
    assert await again.outcome(asks("c5", A)) == "admitted"
    # It is looked at again when it has changed.
    cluster.records.put(ledger("another", node="n2"))
    assert await cluster.outcome(asks("c5", A)) == "admitted"


def test_a_request_for_no_nodes_certificate_is_not_found_by_name() -> None:
    for csr in (asks("c1", signer="example.com/a"), msgspec.structs.replace(asks("c1"), spec=EMPTY)):
        assert (tuple(name_admission.node_names_of_request(csr)), tuple(name_admission.keys_of_request(csr))) == (
            (),
            (),
        )
    assert (
        tuple(name_admission.node_names_of_request(asks("c1"))),
        tuple(name_admission.keys_of_request(asks("c1"))),
    ) == (
        ("n1",),
        (MINE,),
    )
    long = msgspec.structs.replace(asks("c1").spec, request=pem("n1", 1) + b"\n" * 5000)
    assert tuple(name_admission.keys_of_request(msgspec.structs.replace(asks("c1"), spec=long))) == (MINE,)
