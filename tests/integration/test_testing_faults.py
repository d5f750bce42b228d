"""Faults on demand: ``Cluster.faults``, as they are on the wire."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import pytest

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client, EventType, TransportError, WatchOptions
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster, ClusterError, FaultError
from kubevouch.util.clock import SystemClock

R = TypeVar("R")
SETTINGS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"colour": "blue"},
}
MAPS = "/api/v1/namespaces/default/configmaps"
SETTINGS_PATH = f"{MAPS}/settings"
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


@asynccontextmanager
async def _client(c: Cluster) -> AsyncIterator[Client]:
    client = client_from_kubeconfig(c.kubeconfig, component="test")
    try:
        yield client
    finally:
        await client.close()


def _with_client(c: Cluster, scenario: Callable[[Client], Coroutine[Any, Any, R]]) -> R:
    async def run() -> R:
        async with _client(c) as client:
            return await scenario(client)

    return asyncio.run(run())


async def _status(client: Client, method: str, path: str, body: object = None) -> tuple[int, str, str]:
    """Code, reason and Retry-After."""
    headers = MERGE if method == "PATCH" else JSON
    answer = await client.raw(method, path, None if body is None else json.dumps(body).encode(), headers)
    tree = json.loads(answer.body)
    return answer.status, tree.get("reason", ""), answer.headers.get("retry-after", "")


@async_test
async def test_each_code_has_kubernetes_words_once() -> None:
    async with Cluster(https=True) as c:
        made = await c.client().create(catalog.CONFIG_MAPS, _settings())
        expected = {
            401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired",
            429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
        }  # fmt: skip
        async with _client(c) as client:
            for code, reason in expected.items():
                # Our own client asks again by itself where nothing can happen twice.
                fault = c.faults.error(code, verbs="patch", resources="configmaps", retry_after=7)
                retry = "7" if code in (429, 503) else ""
                assert await _status(client, "PATCH", SETTINGS_PATH, {}) == (code, reason, retry)
                assert (await _status(client, "PATCH", SETTINGS_PATH, {}))[0] == 200
                assert fault.struck == 1
            changed = {**SETTINGS, "metadata": {"name": "settings", "resourceVersion": made.metadata.resource_version}}
            c.faults.conflict(resources="configmaps")
            answer = await client.raw("PUT", SETTINGS_PATH, json.dumps(changed).encode(), JSON)
            assert json.loads(answer.body)["message"] == (
                'Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply '
                "your changes to the latest version and try again"
            )
            assert (await _status(client, "PUT", SETTINGS_PATH, changed))[0] == 200
            c.faults.error(409, verbs="create")
            answer = await client.raw("POST", MAPS, json.dumps({**SETTINGS, "metadata": {"name": "b"}}).encode(), JSON)
            assert json.loads(answer.body)["message"] == 'configmaps "b" already exists'
            c.faults.too_many_requests()
            assert await _status(client, "PATCH", SETTINGS_PATH, {}) == (429, "TooManyRequests", "1")


def _settings() -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="settings", namespace="default"), data={"colour": "blue"})


def test_only_what_is_meant_is_struck() -> None:
    with Cluster(https=True) as c:
        c.apply(SETTINGS)
        c.apply({**SETTINGS, "metadata": {"name": "other"}})

        async def scenario(client: Client) -> list[int]:
            paths = (SETTINGS_PATH, f"{MAPS}/other", MAPS, "/api/v1/namespaces/default", "/version")
            return [(await client.raw("GET", path)).status for path in paths]

        for which, struck in (
            ({}, [500, 500, 500, 500, 200]),
            ({"verbs": "list"}, [200, 200, 500, 200, 200]),
            ({"verbs": ("get", "list")}, [500, 500, 500, 500, 200]),
            ({"resources": "configmaps"}, [500, 500, 500, 200, 200]),
            ({"resources": ["namespaces", "configmaps.example.com"]}, [200, 200, 200, 500, 200]),
            ({"resources": "configmaps/status"}, [200] * 5),
            ({"resources": "*"}, [500, 500, 500, 500, 200]),
            ({"name": "other"}, [200, 500, 200, 200, 200]),
            ({"namespace": "kube-system"}, [200] * 5),
            ({"user": "alice"}, [200] * 5),
            ({"user": "kubernetes-super-admin"}, [500, 500, 500, 500, 200]),
        ):
            with c.faults.error(500, times=None, **which) as fault:
                assert _with_client(c, scenario) == struck, which
                assert fault.struck == struck.count(500)
                c.get("cm", "settings")  # the test itself is spared
        assert _with_client(c, scenario) == [200] * 5


def test_a_request_may_be_carried_out_and_its_answer_lost() -> None:
    with Cluster(https=True) as c:

        async def scenario(client: Client) -> None:
            c.faults.error(500, verbs="create", after=True)
            assert (await _status(client, "POST", MAPS, {**SETTINGS, "metadata": {"name": "a"}}))[0] == 500
            c.faults.error(500, verbs="create")
            assert (await _status(client, "POST", MAPS, {**SETTINGS, "metadata": {"name": "b"}}))[0] == 500
            for name, after in (("c", True), ("d", False)):
                fault = c.faults.disconnect(verbs="create", after=after)
                with pytest.raises(TransportError):
                    await client.raw(
                        "POST", MAPS, json.dumps({**SETTINGS, "metadata": {"name": name}}).encode(), JSON
                    )  # fmt: skip
                assert fault.struck == 1

        _with_client(c, scenario)
        assert [each.metadata.name for each in c.list("cm", "default")] == ["a", "c"]


def test_faults_follow_one_another_and_end_with_clear_and_restore() -> None:
    with Cluster(https=True) as c:
        snapshot = c.snapshot()

        async def codes(client: Client) -> list[int]:
            return [(await client.raw("GET", MAPS)).status for _ in range(4)]

        slow = c.faults.latency(0.001)
        c.faults.error(500)
        c.faults.error(504, times=2)
        assert _with_client(c, codes) == [500, 504, 504, 200]
        assert slow.struck == 4
        c.faults.error(500, times=None)
        c.faults.clear()
        assert _with_client(c, codes) == [200] * 4
        c.faults.error(500, times=None)
        c.restore(snapshot)
        assert _with_client(c, codes) == [200] * 4
        c.faults.error(500, times=None)
        c.restart()
        assert _with_client(c, codes) == [500] * 4


def test_latency_is_real_time() -> None:
    with Cluster(https=True) as c:

        async def scenario(client: Client) -> float:
            await client.raw("GET", MAPS)
            before = SystemClock().monotonic()
            await client.raw("GET", MAPS)
            return SystemClock().monotonic() - before

        with c.faults.latency(0.1):
            assert _with_client(c, scenario) >= 0.1


async def _watched(client: Client, version: str = "") -> list[str]:
    stream = client.watch(catalog.CONFIG_MAPS, "default", WatchOptions(resource_version=version))
    async with aclosing(stream):
        return [
            event.status.message if event.status is not None else event.type.value
            async for event in stream
            if event.type is not EventType.BOOKMARK
        ]


@pytest.mark.parametrize("how", ["end", "cut", "expire"])
def test_running_watches_end(how: Any) -> None:
    with Cluster(https=True) as c:
        version = c.apply(SETTINGS).metadata.resource_version
        seen: list[list[str]] = []

        async def scenario(client: Client) -> None:
            try:
                seen.append(await _watched(client, version))
            except TransportError:
                seen.append(["cut"])

        thread = threading.Thread(target=lambda: _with_client(c, scenario))
        thread.start()
        c.faults.wait_for_watch(resources="configmaps", namespace="default")
        assert c.faults.drop_watches(how, resources="secrets") == 0
        assert c.faults.drop_watches(how, resources="configmaps") == 1
        thread.join()
        expired = f"too old resource version: {version} ({int(version) + 1})"
        assert seen == [{"end": [], "cut": ["cut"], "expire": [expired]}[how]]
        assert c.faults.drop_watches() == 0


def test_only_who_goes_on_from_a_version_hears_that_it_is_gone() -> None:
    with Cluster(https=True) as c:
        version = c.apply(SETTINGS).metadata.resource_version
        c.apply({**SETTINGS, "metadata": {"name": "other"}})

        async def scenario(client: Client) -> None:
            fault = c.faults.gone(resources="configmaps", times=None)
            page = await client.raw("GET", f"{MAPS}?limit=1")
            token = json.loads(page.body)["metadata"]["continue"]
            assert fault.struck == 0
            assert (await _status(client, "GET", f"{MAPS}?limit=1&continue={token}"))[:2] == (410, "Expired")
            assert (await _watched(client, version))[0].startswith("too old resource version: ")
            assert fault.struck == 2

        _with_client(c, scenario)


def test_a_certificate_may_have_ended_and_may_end() -> None:
    with Cluster(https=True) as c:
        lasting = dt.timedelta(hours=1)
        codes = []
        for lasts in (None, lasting, -lasting):
            path = c.folder / "somebody.conf"
            path.write_text(c.kubeconfig_for("alice", ["system:masters"], lasts=lasts))

            async def scenario(client: Client) -> int:
                return (await client.raw("GET", MAPS)).status

            async def as_alice(path: Any = path) -> int:
                client = client_from_kubeconfig(path, component="test")
                try:
                    return await scenario(client)
                finally:
                    await client.close()

            codes.append(asyncio.run(as_alice()))
            if lasts == lasting:
                snapshot = c.snapshot()
                c.clock.advance(3601)
                codes.append(asyncio.run(as_alice()))
                c.restore(snapshot)
        assert codes == [200, 200, 401, 401]


def test_a_fault_can_be_waited_for() -> None:
    with Cluster(https=True) as c:

        async def scenario(client: Client) -> None:
            await client.raw("GET", MAPS)

        fault = c.faults.error(500)
        thread = threading.Thread(target=lambda: _with_client(c, scenario))
        thread.start()
        fault.wait()
        thread.join()
        with pytest.raises(AssertionError, match=r"the fault struck 1 requests within 0\.01 s, expected 2"):
            fault.wait(2, timeout=0.01)
        with pytest.raises(AssertionError, match=r"no such watch within 0\.01 s: \{'resources': 'pods'\}"):
            c.faults.wait_for_watch(resources="pods", timeout=0.01)


def test_what_cannot_be_had_is_said() -> None:
    with Cluster(https=True) as c:
        with pytest.raises(FaultError, match="got the verb 'post', expected one of get, list"):
            c.faults.error(500, verbs="post")
        with pytest.raises(FaultError, match="got the resource 'ConfigMap', expected a plural"):
            c.faults.error(500, resources="ConfigMap")
        with pytest.raises(FaultError, match="got the code 418, expected one of 401, 403"):
            c.faults.error(418)
        with pytest.raises(FaultError, match="got 'kill', expected end, cut or expire"):
            c.faults.drop_watches("kill")  # type: ignore[arg-type]
    with Cluster() as c, pytest.raises(ClusterError, match=r"start the cluster as Cluster\(https=True\)"):
        c.faults.clear()


@async_test
async def test_on_the_loop_of_the_cluster_nothing_waits() -> None:
    async with Cluster(https=True) as c:
        fault = c.faults.error(500)
        with pytest.raises(ClusterError, match="would wait for its own event loop"):
            fault.wait()
        assert c.faults.drop_watches() == 0
