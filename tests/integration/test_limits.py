"""Floods over real sockets: who floods waits or is refused, who joins is served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, Status
from kubevouch.server.filters.flow_control import _Ticket
from kubevouch.server.flow_control.connections import ConnectionLimits
from kubevouch.server.flow_control.lanes import Lane
from kubevouch.testing import Cluster
from served_world import served

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
FIXTURES = Path(__file__).parents[1] / "vectors" / "fixtures-server"
REQUESTS = [(FIXTURES / f"csr-client-worker-{n}.pem").read_bytes() for n in (7, 8)]
NODE = UserInfo("system:node:worker-7", groups=("system:nodes", "system:authenticated"))


def csr(name: str, request: bytes = REQUESTS[0]) -> CertificateSigningRequest:
    return CertificateSigningRequest(
        metadata=ObjectMeta(name=name),
        spec=CertificateSigningRequestSpec(
            request=request,
            signer_name="kubernetes.io/kube-apiserver-client-kubelet",
            usages=["digital signature", "client auth"],
        ),
    )


@async_test
async def test_a_join_does_not_wait_behind_a_flood_of_anonymous_discovery(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session() as flood, at.session(at.token) as join:
        control = at.server.api.flow_control
        lane = control.scheduler.lanes[Lane.ANONYMOUS]
        seats, lane.seats = lane.seats, 0  # as if a flood held all of them

        async def anonymous() -> int:
            async with flood.get(CLUSTER_INFO) as answer:
                return answer.status

        tasks = [asyncio.create_task(anonymous()) for _ in range(100)]
        while lane.waiting < len(tasks):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        for name in ("a", "b"):
            async with join.post(CSRS, json=json.loads(_as_json(csr(name)))) as answer:
                assert answer.status == 201
        async with join.get(f"{CSRS}?watch=1&fieldSelector=metadata.name%3Da") as answer:
            assert (await answer.content.readline()).startswith(b'{"type":"ADDED"')
        assert not any(task.done() for task in tasks)
        lane.seats = seats
        control._ask_for_turn()
        assert await asyncio.gather(*tasks) == [200] * 100
        assert lane.running == lane.waiting == 0


@async_test
async def test_a_full_lane_answers_429_and_leaves_the_other_lanes_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session() as flood, at.session(at.token) as join:
        scheduler = at.server.api.flow_control.scheduler
        lane = scheduler.lanes[Lane.ANONYMOUS]
        for n in range((lane.limits.per_turn or 0) + lane.limits.queue):
            scheduler.arrive(Lane.ANONYMOUS, str(n), _Ticket(Lane.ANONYMOUS, str(n)), 1e12)
        assert lane.waiting == lane.limits.queue
        async with flood.get(CLUSTER_INFO) as answer:
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "1"
            status = await answer.json()
            assert (status["kind"], status["reason"]) == ("Status", "TooManyRequests")
            assert status["details"]["retryAfterSeconds"] == 1
        async with join.get(f"{CSRS}/x") as answer:
            assert answer.status == 404
        metrics = (await at.admin.raw("GET", "/metrics")).body.decode()
    assert (
        'apiserver_flowcontrol_rejected_requests_total{priority_level="anonymous",reason="queue-full"} 1.0' in metrics
    )


@async_test
async def test_a_flood_of_wrong_tokens_gets_429_and_the_right_one_passes(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session() as flood, at.session(at.token) as join:
        codes: list[int] = []
        token_id = at.token.partition(".")[0]

        async def wrong(number: int) -> None:
            guess = {"Authorization": f"Bearer {token_id}.{number:016}"}
            async with flood.get(f"{CSRS}/x", headers=guess) as answer:
                codes.append(answer.status)
                if answer.status == 429:
                    assert int(answer.headers["Retry-After"]) >= 1
                    assert (await answer.json())["reason"] == "TooManyRequests"

        for start in range(0, 1000, 50):
            await asyncio.gather(*(wrong(number) for number in range(start, start + 50)))
            async with join.get(f"{CSRS}/x") as answer:
                assert answer.status == 404
    assert set(codes) == {401, 429}
    assert codes[:50] == [401] * 50


@async_test
async def test_connections_over_the_limit_are_hung_up_on(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        limits = at.server.api._https.limits
        limits._total = limits._from_one_source = 2  # opening the default number of connections would take minutes
        host, port = "127.0.0.1", at.server.endpoint.port
        held = [await asyncio.open_connection(host, port, ssl=at.context) for _ in range(2)]
        reader, third = await asyncio.open_connection(host, port)
        assert await reader.read() == b""
        for _, each in held:
            each.close()
        while limits.open:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.001)
        async with at.session() as session, session.get("/version") as answer:
            assert answer.status == 200
        third.close()
    assert isinstance(limits, ConnectionLimits)
    assert limits.refused == 1


# ------------------------------------------------------------------ open requests


async def refusal(client: Client, obj: CertificateSigningRequest) -> Status:
    try:
        await client.create(catalog.CERTIFICATE_SIGNING_REQUESTS, obj)
    except APIStatusError as err:
        return err.status
    raise AssertionError("was not refused")


@async_test
async def test_a_node_may_have_so_many_undecided_requests() -> None:
    async with Cluster() as c:
        node, admin = c.client(NODE), c.client()
        for number in range(20):
            await node.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr(f"r{number}"))
        status = await refusal(node, csr("one-too-many"))
        assert (status.code, status.reason) == (429, "TooManyRequests")
        assert status.details is not None and status.details.retry_after_seconds > 0
        # Somebody else is not held back, nor is an administrator.
        joining = c.client("system:bootstrap:abcdef", ["system:bootstrappers:kubeadm:default-node-token"])
        await joining.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr("of-a-joining-machine"))
        await admin.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr("by-admin"))
        await admin.delete(catalog.CERTIFICATE_SIGNING_REQUESTS, "r0")
        await node.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr("again"))
        assert (await refusal(node, csr("too-many-again"))).code == 429


@async_test
async def test_a_second_request_for_the_same_key_is_warned_of_the_first(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session(at.token) as session:

        async def post(name: str, request: bytes) -> list[str]:
            body = json.loads(_as_json(csr(name, request)))
            async with session.post(CSRS, json=body) as answer:
                assert answer.status == 201, await answer.text()
                return answer.headers.getall("Warning", [])

        assert await post("first", REQUESTS[0]) == []
        assert await post("other-key", REQUESTS[1]) == []
        [warning] = await post("second", REQUESTS[0])
    assert "'first'" in warning


def _as_json(obj: CertificateSigningRequest) -> bytes:
    from kubevouch.machinery.codec import json_codec

    tree = json_codec.to_builtins(obj)
    return json.dumps({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", **tree}).encode()


@async_test
async def test_a_watch_gives_its_seat_back_once_it_has_begun(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session(at.token) as session:
        lanes = at.server.api.flow_control.scheduler.lanes
        timeout = aiohttp.ClientTimeout(total=20)
        path = f"{CSRS}?watch=1&fieldSelector=metadata.name%3Dx&timeoutSeconds=600"
        async with session.get(path, timeout=timeout) as answer:
            assert answer.status == 200
            assert [state.running for state in lanes.values()] == [0] * len(lanes)
            metrics = (await at.admin.raw("GET", "/metrics")).body.decode()
            [line] = [each for each in metrics.splitlines() if each.startswith("apiserver_longrunning_requests{")]
            assert 'resource="certificatesigningrequests"' in line and line.endswith(" 1.0")
