"""Who gets a node's name, out of what the caches hold; the rules themselves are in the tests of policy/node_names."""

from __future__ import annotations

import datetime as dt
from functools import cache
from typing import Any

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
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.token_bounds import NODE_NAMES_ANNOTATION, TOKEN_UID_EXTRA
from kubevouch.testing.clock import FakeClock
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
CA = ThrowawayCA()
TAKEN, REPLAYED = "NodeNameTaken", "KeyOfAnotherRequester"
CLIENT_KUBELET = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
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
    ) -> None:
        csrs: Indexer[CertificateSigningRequest] = Indexer(
            {NODE_INDEX: name_admission._node_names, KEY_INDEX: name_admission._keys}
        )
        for request in requests:
            csrs.put(request)
        nodes: Indexer[Node] = Indexer()
        if node is not None:
            nodes.put(node)
        config_maps: Indexer[ConfigMap] = Indexer()
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

    async def outcome(self, csr: CertificateSigningRequest, *, admit: bool = False) -> str:
        """``admitted``, ``waits``, or the reason of the refusal."""
        wanted = x509_request.parse_pem(csr.spec.request or b"")
        try:
            await (self.names.admit if admit else self.names.verify)(csr, wanted)
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
    assert await Cluster(other).outcome(asks("c5", B)) == outcome


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
        (asks("c5", B, "Approved", key=2, certificate=issued()), "admitted"),
    ],
)
@async_test
async def test_a_name_belongs_to_the_machine_whose_key_was_certified(
    other: CertificateSigningRequest, outcome: str
) -> None:
    assert await Cluster(other).outcome(asks("c5", B)) == outcome
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
