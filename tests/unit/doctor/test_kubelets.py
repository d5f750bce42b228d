"""Each test has a kubelet's port that is wrong in one way and reads the diagnosis."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import (
    DaemonEndpoint,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeStatus,
)
from kubevouch.client.rest_config import rest_config
from kubevouch.doctor import cluster as cluster_doctor
from kubevouch.doctor.findings import Code, Finding
from kubevouch.doctor.kubelets import PILE, compare, endpoint_of, judge_pile, listening_endpoint, visit
from kubevouch.doctor.node_files import Room, judge_room, room_in
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.join import KUBELET_CONFIG, KUBELET_FLAGS
from kubevouch.phases.join_wait import SERVING
from kubevouch.pki.x509 import x509_certificate
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock
from throwaway_ca import Pair, ThrowawayCA, server_context

CLOCK = SystemClock()
CA = ThrowawayCA("cluster")
ANCHORS = x509_certificate.parse_bundle(CA.bundle)


def _node(port: int, *addresses: str, ready: str = "True") -> Node:
    return Node(
        metadata=ObjectMeta(name="worker-1"),
        status=NodeStatus(
            addresses=[NodeAddress(type="InternalIP", address=each) for each in addresses],
            conditions=[NodeCondition(type="Ready", status=ready)],
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port)),
        ),
    )


# A fatal alert, internal_error (RFC 8446, section 6): all that Go says without a certificate.
ALERT = bytes.fromhex("15 0303 0002 02 50")


@asynccontextmanager
async def _kubelet(folder: Path, pair: Pair | None) -> AsyncIterator[int]:
    """A port that serves with ``pair``, or with none, as a kubelet that waits for its certificate."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if pair is None:
            await reader.read(4096)
            writer.write(ALERT)
        writer.close()

    context = None if pair is None else server_context(pair, folder)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _codes(found: Iterable[Finding]) -> list[Code]:
    return [each.code for each in found]


NOW = CLOCK.now()
GONE = CA.issue("worker-1", not_before=NOW - dt.timedelta(days=3), not_after=NOW - dt.timedelta(days=1))


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        (CA.issue("worker-1"), None),
        (None, Code.KUBELET_WITHOUT_CERTIFICATE),
        (ThrowawayCA("itself").issue("worker-1"), Code.KUBELET_SELF_SIGNED),
        (CA.issue("worker-1", names=("worker-1", "192.0.2.9")), Code.KUBELET_NAME_MISSING),
        (GONE, Code.KUBELET_CERTIFICATE_DATES),
    ],
    ids=lambda value: value.value.code if isinstance(value, Code) else "",
)
def test_what_a_kubelet_serves_with(tmp_path: Path, pair: Pair | None, code: Code | None) -> None:
    @async_test
    async def scenario() -> None:
        async with _kubelet(tmp_path, pair) as port:
            found = await visit([_node(port, "127.0.0.1")], ANCHORS, CLOCK)
        assert _codes(found) == ([] if code is None else [code])
        assert all("worker-1" in each.cause for each in found)

    scenario()


@async_test
async def test_nodes_that_cannot_be_called() -> None:
    found = await visit([_node(1, "127.0.0.1")], ANCHORS, CLOCK)
    assert _codes(found) == [Code.KUBELET_NOT_REACHED]
    assert found[0].fix == "on worker-1: systemctl restart kubelet"
    assert _codes(await visit([_node(1, "127.0.0.1", ready="False")], ANCHORS, CLOCK)) == []
    assert _codes(await visit([_node(1)], ANCHORS, CLOCK)) == [Code.NODE_WITHOUT_ADDRESS]


@async_test
async def test_a_kubelet_that_says_nothing() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        clock = FakeClock(NOW)
        visiting = asyncio.create_task(visit([_node(server.sockets[0].getsockname()[1], "127.0.0.1")], ANCHORS, clock))
        await clock.until_asleep(2)
        clock.advance(3)
        (found,) = await visiting
    assert found.code is Code.KUBELET_NOT_REACHED and "did not answer within 3 s" in found.cause
    assert found.fix.startswith("let TCP port")


@async_test
async def test_where_no_kubelet_can_be_reached_that_is_said_once() -> None:
    (found,) = await visit([_node(1, "127.0.0.1")] * 9, ANCHORS, CLOCK)
    assert found.code is Code.KUBELET_NOT_REACHED and found.cause.startswith("9 kubelets, of which one: ")


def test_the_internal_address_comes_first() -> None:
    addresses = [("Hostname", "n"), ("ExternalIP", "192.0.2.1"), ("InternalIP", "10.0.0.1")]
    status = NodeStatus(addresses=[NodeAddress(type=kind, address=each) for kind, each in addresses])
    endpoint = endpoint_of(Node(metadata=ObjectMeta(name="n"), status=status))
    assert endpoint is not None and endpoint.address == "10.0.0.1:10250"


@async_test
async def test_what_is_served_and_what_is_on_disk(tmp_path: Path) -> None:
    former, following = CA.issue("worker-1"), CA.issue("worker-1")
    path = tmp_path / SERVING
    path.parent.mkdir(parents=True)
    async with _kubelet(tmp_path, former) as port:
        assert _codes((await compare(tmp_path, CLOCK, port=port))[0]) == []
        path.write_bytes(former.certificate + former.key)
        found, facts = await compare(tmp_path, CLOCK, port=port)
        assert found == [] and [name for name, _ in facts] == ["serving certificate", "kubelet"]
        path.write_bytes(following.certificate + following.key)
        found, _ = await compare(tmp_path, CLOCK, port=port)
        assert _codes(found) == [Code.KUBELET_SERVES_FORMER]
        assert found[0].fix == "systemctl restart kubelet"
        # It is where the kubelet's own configuration says.
        (tmp_path / KUBELET_CONFIG).write_text(f"address: 127.0.0.1\nport: {port}\n")
        assert _codes((await compare(tmp_path, CLOCK, port=1))[0]) == [Code.KUBELET_SERVES_FORMER]
        (tmp_path / KUBELET_CONFIG).unlink()
    found, facts = await compare(tmp_path, CLOCK, port=port)
    assert found == [] and facts[-1] == ("kubelet", f"nothing serves on 127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("config", "flags", "address"),
    [
        ("", "", "127.0.0.1:10250"),
        ("address: 0.0.0.0\nport: 10350\n", "", "127.0.0.1:10350"),
        ('address: "::"\n', "", "[::1]:10250"),
        ("address: 192.0.2.7\n", "", "192.0.2.7:10250"),
        ("address: 192.0.2.7\n", 'KUBELET_KUBEADM_ARGS="--address=192.0.2.8 --node-ip=192.0.2.9"', "192.0.2.8:10250"),
        ("address: [", "", "127.0.0.1:10250"),
        ("- x\n", "", "127.0.0.1:10250"),
        ("address: nonsense\n", "", "127.0.0.1:10250"),
    ],
)
def test_where_a_kubelet_listens(tmp_path: Path, config: str, flags: str, address: str) -> None:
    for path, text in ((KUBELET_CONFIG, config), (KUBELET_FLAGS, flags)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert listening_endpoint(tmp_path).address == address


@async_test
async def test_the_doctor_of_clusters_visits_them(tmp_path: Path) -> None:
    async with Cluster(https=True, controllers=("*",)) as cluster, _kubelet(tmp_path, CA.issue()) as port:
        client = cluster.client()
        await client.create(catalog.NODES, _node(port, "127.0.0.1"))
        report = await cluster_doctor.examine(rest_config(cluster.kubeconfig), CLOCK)
        assert _codes(report.findings) == [Code.KUBELET_SELF_SIGNED]
        assert dict(report.facts)["nodes"] == "1, 1 of them ready"


def test_a_pile_of_requests() -> None:
    spec = CertificateSigningRequestSpec(request=b"", signer_name="example.com/s", username="system:node:a")
    pile = [CertificateSigningRequest(metadata=ObjectMeta(name=f"csr-{n}"), spec=spec) for n in range(PILE)]
    assert _codes(judge_pile(pile[1:])) == []
    assert _codes(judge_pile(pile)) == [Code.REQUESTS_PILE_UP]


def test_room_for_the_next_pair(tmp_path: Path) -> None:
    room = room_in(tmp_path)
    assert room is not None and _codes(judge_room(room)) == []
    assert room_in(tmp_path / "none") is None
    assert _codes(judge_room(Room(tmp_path, 100, False))) == [Code.FOLDER_NOT_WRITABLE]
    assert _codes(judge_room(Room(tmp_path, 1 << 30, True))) == [Code.FOLDER_NOT_WRITABLE]
