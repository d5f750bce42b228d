"""What works on all objects of a kind gives way: others get turns in proportion to the number of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from cache_world import RESOURCE, config_map
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock
from wire import Wire

MANY = 5_000
# Each looked at takes some microseconds, so that this many are a few milliseconds.
MOST_IN_A_TURN = 500


class Others:
    """Everybody else on the loop, with the turns that they got."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    async def end(self) -> int:
        self._task.cancel()
        await asyncio.wait({self._task})
        return self.turns


class Counting:
    """A handler."""

    def __init__(self) -> None:
        self.heard = 0

    def on_add(self, obj: object, *, initial: bool) -> None:
        self.heard += 1

    def on_update(self, old: object, new: object) -> None:
        self.heard += 1

    def on_delete(self, obj: object, *, missed: bool) -> None:
        self.heard += 1


@pytest.mark.parametrize("again", ["all are new", "all have changed", "all are gone"])
@async_test
async def test_a_list_taken_into_an_informer(again: str) -> None:
    with Cluster() as cluster:
        informer = SharedInformer(cluster.client(), RESOURCE, clock=FakeClock())
    handler = Counting()
    informer.add_handler(handler)
    if again != "all are new":
        await informer.replace([config_map(f"c{number}", 1) for number in range(MANY)])
    others = Others()
    items = [] if again == "all are gone" else [config_map(f"c{number}", 2) for number in range(MANY)]
    handler.heard = 0
    await informer.replace(items)
    assert handler.heard == MANY
    assert await others.end() >= MANY // MOST_IN_A_TURN


# ------------------------------------------------------------------ lists: the fixture `no_stalls` is the judge


@pytest.fixture(scope="module")
def full() -> Iterator[Cluster]:
    """A cluster with many objects."""
    with Cluster(https=True) as cluster:

        async def fill() -> None:
            client = cluster.client()
            for number in range(MANY // 2):
                tree = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"c{number}", "labels": {"n": str(number)}, "annotations": {"a": "x" * 200}},
                    "data": {f"k{key}": "v" * 20 for key in range(10)},
                }
                path = "/api/v1/namespaces/default/configmaps"
                await client.raw("POST", path, msgspec.json.encode(tree), {"Content-Type": "application/json"})

        cluster.run(fill())
        yield cluster


_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_NUMBERS = "n+in+(" + ",".join(map(str, range(900))) + ")"


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("", "application/json"),
        ("pretty=true", "application/json"),
        ("", _TABLE),
        ("", _METADATA),
        ("", "application/vnd.kubernetes.protobuf"),
        ("limit=1000", "application/yaml"),
        ("resourceVersion=0", "application/json"),
        ("fieldSelector=metadata.name%3Dc7", "application/json"),
        (f"labelSelector={_NUMBERS}", "application/json"),
        (f"limit=10&labelSelector=n+notin+({','.join(map(str, range(900)))})", _TABLE),
    ],
)
def test_a_list_of_many(full: Cluster, tmp_path: Path, query: str, accept: str) -> None:
    wire = Wire.of_kubeconfig(full.kubeconfig, tmp_path)
    assert wire.request("GET", f"/api/v1/configmaps?{query}", Accept=accept).code == 200


@pytest.mark.parametrize("accept", ["application/json", _TABLE, "application/vnd.kubernetes.protobuf"])
def test_the_initial_events_of_a_watch(full: Cluster, tmp_path: Path, accept: str) -> None:
    wire = Wire.of_kubeconfig(full.kubeconfig, tmp_path)
    head = f"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"
    with wire.connected() as connection:
        connection.sendall(head.encode())
        size = 0
        while size < 500 * MANY // 2:
            received = connection.recv(1 << 20)
            assert received
            size += len(received)
