"""What client libraries make of the faults of ``kubevouch.testing``: the table of docs/howto/test-an-operator.md."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, cast

import kr8s
import lightkube
import pytest
from kr8s.asyncio.objects import ConfigMap as Kr8sConfigMap
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes import watch as official_watch
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap as LightConfigMap

from kubevouch.testing import Cluster

RETRIED, RAISED, ENDED = "asks again", "raises", "ends"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
        yield cluster


@pytest.fixture(autouse=True)
def _no_faults_are_left(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.faults.clear()


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception:  # noqa: BLE001 - each library has its own
        return RAISED
    return RETRIED


class Official:
    """kubernetes"""

    def __init__(self, cluster: Cluster) -> None:
        self._api = official_config.new_client_from_config(str(cluster.kubeconfig))  # type: ignore[no-untyped-call]
        self._core = official.CoreV1Api(self._api)

    def read(self) -> object:
        return self._core.read_namespaced_config_map("settings", "default")

    def create(self, name: str) -> object:
        return self._core.create_namespaced_config_map("default", cast(Any, {"metadata": {"name": name}}))

    def watch(self, saw: Callable[[str], bool]) -> None:
        stream = official_watch.Watch().stream(self._core.list_namespaced_config_map, "default")  # type: ignore[no-untyped-call]
        for event in stream:
            if saw(event["object"].metadata.name):
                return

    def close(self) -> None:
        self._api.close()


class Lightkube:
    """lightkube"""

    def __init__(self, cluster: Cluster) -> None:
        config = lightkube.KubeConfig.from_file(str(cluster.kubeconfig))
        self._client = lightkube.Client(config=config, namespace="default")

    def read(self) -> object:
        return self._client.get(LightConfigMap, "settings")

    def create(self, name: str) -> object:
        return self._client.create(LightConfigMap(metadata=ObjectMeta(name=name)))

    def watch(self, saw: Callable[[str], bool]) -> None:
        for _, obj in self._client.watch(LightConfigMap):
            assert obj.metadata is not None
            if saw(obj.metadata.name or ""):
                return

    def close(self) -> None:
        self._client._client._client.close()


class Kr8s:
    """kr8s"""

    def __init__(self, cluster: Cluster) -> None:
        self._kubeconfig = str(cluster.kubeconfig)

    def _run(self, ask: Callable[[Any], Awaitable[object]]) -> object:
        async def scenario() -> object:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Kubernetes version .* is not supported")
                api = await kr8s.asyncio.api(kubeconfig=self._kubeconfig)
            try:
                return await ask(api)
            finally:
                if api._session is not None:
                    await api._session.aclose()

        return asyncio.run(scenario())

    def read(self) -> object:
        return self._run(lambda api: Kr8sConfigMap.get("settings", namespace="default", api=api))

    def create(self, name: str) -> object:
        async def create(api: Any) -> None:
            made = await Kr8sConfigMap({"metadata": {"name": name, "namespace": "default"}}, api=api)
            await made.create()

        return self._run(create)

    def watch(self, saw: Callable[[str], bool]) -> None:
        async def watch(api: Any) -> None:
            async with aclosing(api.watch("configmaps", namespace="default")) as stream:
                async for _, obj in stream:
                    if saw(obj.metadata.name):
                        return

        self._run(watch)

    def close(self) -> None:
        """Each call has its own."""


ANSWERS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "official": (Official, {"500": RAISED, "503": RETRIED, "429": RETRIED, "401": RAISED, "cut": RETRIED}),
    "lightkube": (Lightkube, {"500": RAISED, "503": RAISED, "429": RAISED, "401": RAISED, "cut": RAISED}),
    "kr8s": (Kr8s, {"500": RAISED, "503": RAISED, "429": RAISED, "401": RETRIED, "cut": RAISED}),
}
WATCHES = {
    "official": {"end": RETRIED, "cut": RAISED, "expire": RETRIED},
    "lightkube": {"end": RETRIED, "cut": RAISED, "expire": RAISED},
    "kr8s": {"end": ENDED, "cut": RAISED, "expire": RETRIED},
}


@pytest.mark.parametrize("library", ANSWERS)
def test_reads_and_writes(cluster: Cluster, library: str) -> None:
    make, expected = ANSWERS[library]
    client = make(cluster)
    seen = {}
    for answer in expected:
        if answer == "cut":
            fault = cluster.faults.disconnect(verbs=("get", "list"), resources="configmaps")
        else:
            fault = cluster.faults.error(int(answer), verbs=("get", "list"), resources="configmaps")
        seen[answer] = outcome(client.read)
        assert fault.struck == 1
    assert seen == expected
    cluster.faults.disconnect(verbs="create", after=True)
    name = f"made-by-{library}"
    assert outcome(lambda: client.create(name)) == RAISED
    assert cluster.get("cm", name).metadata.name == name  # nobody has told the client
    client.close()


@pytest.mark.parametrize("how", ["end", "cut", "expire"])
@pytest.mark.parametrize("library", WATCHES)
def test_watches(cluster: Cluster, library: str, how: Any) -> None:
    client = ANSWERS[library][0](cluster)
    late = f"late-{library}-{how}"
    seen: list[str] = []
    ends: list[str] = []

    def watch() -> None:
        def saw(name: str) -> bool:
            seen.append(name)
            return name == late

        ends.append(outcome(lambda: client.watch(saw)))

    thread = threading.Thread(target=watch)
    thread.start()
    cluster.faults.wait_for_watch(resources="configmaps", namespace="default")
    assert cluster.faults.drop_watches(how, resources="configmaps") == 1
    if WATCHES[library][how] == RETRIED:
        cluster.faults.wait_for_watch(resources="configmaps", namespace="default")
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": late}})
    thread.join()
    client.close()
    told = ENDED if ends == [RETRIED] and late not in seen else ends[0]
    assert told == WATCHES[library][how]
