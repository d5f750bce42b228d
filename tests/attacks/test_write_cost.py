"""Whoever may write one object may not fill memory and disk with its versions."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.client.interface import Client, RawResponse
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.pki import keys
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.registry import write_budget
from kubevouch.registry.write_budget import NODE, Allowance
from served_world import Served, served

WORKER = LeafSpec(common_name="system:node:worker-1", organizations=("system:nodes",), purposes=("client auth",))
LARGE = 1_000_000
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
NODES, EVENTS = "/api/v1/nodes", "/api/v1/namespaces/default/events"
WORKER_STATUS = f"{NODES}/worker-1/status"


@pytest.fixture(autouse=True)
def _nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes."""
    for name in ("NODE", "BOOTSTRAP"):
        allowance = getattr(write_budget, name)
        monkeypatch.setattr(write_budget, name, Allowance(1, allowance.burst, allowance.free))


@asynccontextmanager
async def acting_as(at: Served, folder: Path, who: LeafSpec) -> AsyncIterator[Client]:
    path = folder / f"{who.common_name.replace(':', '-')}.conf"
    path.write_text(at.kubeconfig(who))
    client = client_from_kubeconfig(path, component="test")
    try:
        yield client
    finally:
        await client.close()


async def send(client: Client, method: str, path: str, tree: dict[str, Any], media: str) -> RawResponse:
    return await client.raw(method, path, body=json.dumps(tree).encode(), headers={"Content-Type": media})


def node(number: int, size: int = LARGE) -> dict[str, Any]:
    status = {"images": [{"names": [f"{number}" + "x" * size], "sizeBytes": 1}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"}, "status": status}


async def write(client: Client, how: str, number: int, size: int = LARGE) -> RawResponse:
    tree = node(number, size)
    if how == "event":
        about = {"namespace": "default", "kind": "Node", "name": "worker-1"}
        event = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "source": {"component": "x" * size}}
        return await send(client, "POST", EVENTS, event, "application/json")
    if how == "put":
        present = json.loads((await client.raw("GET", f"{NODES}/worker-1")).body)
        return await send(client, "PUT", WORKER_STATUS, {**present, "status": tree["status"]}, "application/json")
    if how == "apply":
        path = f"{WORKER_STATUS}?fieldManager=m&force=true"
        return await send(client, "PATCH", path, tree, "application/apply-patch+yaml")
    return await send(client, "PATCH", WORKER_STATUS, {"status": tree["status"]}, "application/merge-patch+json")


def request_spec(number: int) -> dict[str, Any]:
    """Each for another name: those have a budget of their own."""
    request = build_request(KEY, Subject(common_name=f"w{number}"))
    encoded = base64.b64encode(request).decode()
    return {"request": encoded, "signerName": "example.com/x", "usages": ["client auth"]}


@pytest.mark.parametrize("how", ["patch", "put", "apply", "event"])
@async_test
async def test_a_node_that_writes_without_end_is_sent_away(tmp_path: Path, how: str) -> None:
    async with served(tmp_path) as at, acting_as(at, tmp_path, WORKER) as worker:
        await send(worker, "POST", NODES, {"metadata": {"name": "worker-1"}}, "application/json")
        before = at.server.api.revisions.bytes
        answers = [await write(worker, how, number) for number in range(8)]
        codes = [answer.status for answer in answers]
        assert sum(code < 300 for code in codes) in (4, 5)
        assert codes == sorted(codes)
        refused = answers[-1]
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "system:node:worker-1 has written too much" in json.loads(refused.body)["message"]
        assert at.server.api.revisions.bytes - before <= NODE.burst + LARGE * 1.1
        # Small ones cost too: it is the object that is stored, however little of it changes.
        assert (await send(worker, "PATCH", WORKER_STATUS, {"status": {"phase": "x"}}, "application/merge-patch+json")
                ).status == 429  # fmt: skip
        # Others are not kept from anything, and the node from nothing else.
        assert (await worker.raw("GET", f"{NODES}/worker-1")).status == 200
        async with acting_as(at, tmp_path, SUPER_ADMIN) as admin:
            for number in range(8):
                assert (await write(admin, "patch", number)).status == 200


@async_test
async def test_a_token_s_large_requests_are_bounded_and_its_small_ones_are_not(tmp_path: Path) -> None:
    async with served(tmp_path) as at, at.session(at.token) as session:
        path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
        codes = []
        for number in range(40):
            meta = {"name": f"r{number}", "annotations": {"a": "x" * 200_000}}
            async with session.post(path, json={"metadata": meta, "spec": request_spec(number)}) as answer:
                codes.append(answer.status)
        assert codes == sorted(codes)
        assert 18 <= codes.count(201) <= 22
        assert codes[-1] == 429
        async with session.post(path, json={"metadata": {"name": "small"}, "spec": request_spec(99)}) as answer:
            assert answer.status == 201
