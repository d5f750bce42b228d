"""A request's memory goes when its answer has gone, not when somebody looks for cycles: a body may have 3 MiB."""

from __future__ import annotations

import asyncio
import collections
import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.http import HttpRequestParser

from asynctest import async_test
from attacks.test_write_cost import WORKER, acting_as, send
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.server.edge.connection import Connection
from kubevouch.server.request import Request
from kubevouch.storage.watchcache.objects import CacheEvent, Stored
from kubevouch.storage.watchcache.resource_cache import Watcher
from kubevouch.util import worker
from served_world import served

ROUNDS = 2
MAPS, NODES = "/api/v1/namespaces/default/configmaps", "/api/v1/nodes"
JSON, MERGE = "application/json", "application/merge-patch+json"
MAP = {"metadata": {"name": "a"}}
# Method, path, body, media type: answered, refused by each of the parties, not to be read, not to be found.
ASKED: dict[str, tuple[str, str, dict[str, Any] | None, str]] = {
    "get": ("GET", f"{NODES}/worker-1", None, ""),
    "list": ("GET", MAPS, None, ""),
    "not found": ("GET", f"{MAPS}/never", None, ""),
    "no such path": ("POST", "/apis/x.example/v1/y", {}, JSON),
    "no such method": ("PUT", MAPS, {}, JSON),
    "not acceptable": ("GET", f"{MAPS}?pretty=1&fieldSelector=x", None, ""),
    "create": ("POST", MAPS, {"metadata": {"generateName": "a-"}}, JSON),
    "exists": ("POST", MAPS, MAP, JSON),
    "invalid": ("POST", MAPS, {"metadata": {"name": "A b"}}, JSON),
    "unreadable": ("POST", MAPS, {"metadata": 7}, JSON),
    "wrong media": ("POST", MAPS, {}, "text/html"),
    "patch": ("PATCH", f"{MAPS}/a", {"data": {"a": "b"}}, MERGE),
    "conflict": ("PATCH", f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}}, MERGE),
    "apply": ("PATCH", f"{MAPS}/a?fieldManager=m&force=1", {**MAP, "kind": "ConfigMap", "apiVersion": "v1"},
              "application/apply-patch+yaml"),
    "delete": ("DELETE", f"{MAPS}/never", None, ""),
    "watch": ("GET", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=1", None, ""),
    "metrics": ("GET", "/metrics", None, ""),
}  # fmt: skip


# With blanks behind it a body is large, and its stages run on another thread.
LARGE = b" " * (worker.LARGE_BYTES + 1)


def _encoded(body: dict[str, Any] | None, padding: bytes = b"") -> bytes | None:
    return None if body is None else json.dumps(body).encode() + padding


@contextmanager
def cycles() -> Iterator[collections.Counter[type]]:
    """What can only be freed by looking for cycles, by type, once the block is left."""
    found: collections.Counter[type] = collections.Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        found.update(map(type, gc.garbage))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()  # here, and not in the middle of what a server does next
        gc.enable()


@async_test
async def test_no_connection_waits_for_the_collector(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        for round_ in range(2):
            with cycles() as found:
                for token in ("", at.token, "bad"):
                    async with at.session(token) as session:
                        for method in ("GET", "POST"):
                            async with session.request(method, "/version", json={"a": "b"}) as answer:
                                await answer.read()
                    while at.server.api._https.limits.open:  # noqa: ASYNC110 - the server tells nobody
                        await asyncio.sleep(0.001)
            if round_:
                assert (found[Connection], found[HttpRequestParser]) == (0, 0)


@pytest.mark.parametrize("padding", [b"", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("who", ["node", "admin", "token", "bad token", "nobody"])
@async_test
async def test_no_request_waits_for_the_collector(tmp_path: Path, who: str, padding: bytes) -> None:
    async with served(tmp_path) as at, acting_as(at, tmp_path, SUPER_ADMIN) as admin:
        assert (await send(admin, "POST", MAPS, MAP, JSON)).status == 201
        spec = WORKER if who == "node" else SUPER_ADMIN
        token = {"token": at.token, "bad token": "abcdef.0123456789abcdee"}.get(who, "")
        async with acting_as(at, tmp_path, spec) as client, at.session(token) as session:
            for round_ in range(2):
                with cycles() as found:
                    for method, path, body, media in [*ASKED.values()] * ROUNDS:
                        headers = {"Content-Type": media} if media else {}
                        if who in ("node", "admin"):
                            await client.raw(method, path, _encoded(body, padding), headers)
                        else:
                            said = _encoded(body, padding)
                            async with session.request(method, path, data=said, headers=headers) as answer:
                                await answer.read()
                # The first round makes what is made once.
                if round_:
                    kept = {each.__name__: found[each] for each in (Request, Stored, CacheEvent, Watcher)}
                    assert kept == {"Request": 0, "Stored": 0, "CacheEvent": 0, "Watcher": 0}
