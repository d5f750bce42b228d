"""What clients see of a server that forgets quickly: expired watches and pages, without a restart."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client as official
from kubernetes import config

import peers
import processes
from interop.clients.interface import Driver
from interop.clients.official import OfficialClient
from interop.test_client_libraries import CLIENTS, watched_from
from interop_world import InteropWorld, interop_world, manifest, unique

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
REMEMBERED = 5
CONFIG: Any = config
# kr8s knows Kubernetes up to 1.35 and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    options = (f"--default-watch-cache-size={REMEMBERED}", "--etcd-compaction-interval=100ms")
    with interop_world(tmp_path_factory.mktemp("compaction"), *options) as world:
        yield world


@pytest.fixture(params=CLIENTS)
def client(world: InteropWorld, request: pytest.FixtureRequest) -> Driver:
    return CLIENTS[request.param](world.kubeconfig)


@pytest.fixture(scope="module")
def writer(world: InteropWorld) -> OfficialClient:
    return OfficialClient(world.kubeconfig)


def write_until_forgotten(writer: OfficialClient, world: InteropWorld, version: str) -> None:
    """Change something else until a watch from ``version`` is too old."""
    name = unique("busy")
    writer.create(manifest(name))
    for number in range(REMEMBERED + 1):
        writer.patch(name, {"metadata": {"labels": {"number": str(number)}}}, "merge")
    assert '"code":410' in watched_from(world, version)
    writer.delete(name)


def test_a_running_watch_whose_version_is_forgotten_lists_again(
    client: Driver, writer: OfficialClient, world: InteropWorld
) -> None:
    label = unique("watched")
    names = [f"{label}-{when}" for when in ("listed", "live", "relisted", "after")]
    heard: queue.Queue[str] = queue.Queue()

    def hear(name: str) -> bool:
        heard.put(name)
        return name == names[-1]

    def hear_until(name: str) -> None:
        while (got := heard.get(timeout=processes.PATIENCE_SECONDS)) != name:
            assert got in names, "the watch ended"

    def watching() -> None:
        try:
            client.watch(f"run={label}", hear)
        finally:
            heard.put("")

    first = writer.create(manifest(names[0], labels={"run": label}))
    # A daemon: where the test fails, nobody ends the watch.
    thread = threading.Thread(target=watching, daemon=True)
    thread.start()
    hear_until(names[0])
    writer.create(manifest(names[1], labels={"run": label}))
    hear_until(names[1])
    # The watch hears nothing of this; once cut, it goes on from a version that nobody remembers.
    write_until_forgotten(writer, world, first["metadata"]["resourceVersion"])
    world.proxy.cut()
    for name in names[2:]:
        writer.create(manifest(name, labels={"run": label}))
        hear_until(name)
    thread.join(processes.PATIENCE_SECONDS)
    assert not thread.is_alive()
    writer.delete_all(f"run={label}")


def expired_page(writer: OfficialClient, world: InteropWorld, label: str) -> tuple[Any, list[str], list[str]]:
    """The Status that a continue token of a forgotten version gets, the names on the first page, and all."""
    names = [f"{label}-{number}" for number in range(5)]
    for name in names:
        writer.create(manifest(name, labels={"run": label}))
    with CONFIG.new_client_from_config(str(world.kubeconfig)) as api:
        certificates: Any = official.CertificatesV1Api(api)
        page = certificates.list_certificate_signing_request(label_selector=f"run={label}", limit=2)
        token = page.metadata._continue
        for number in range(5000):
            writer.patch(names[0], {"metadata": {"labels": {"number": str(number)}}}, "merge")
            try:
                certificates.list_certificate_signing_request(label_selector=f"run={label}", limit=2, _continue=token)
            except official.ApiException as err:
                return json.loads(err.body or ""), [item.metadata.name for item in page.items], names
    raise AssertionError("the page never expired")


def test_an_expired_page_goes_on_inconsistently_with_the_official_client(
    writer: OfficialClient, world: InteropWorld
) -> None:
    """[sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if
    the original version has been compacted away, though the list is inconsistent [Slow]."""
    label = unique("chunk")
    status, first, names = expired_page(writer, world, label)
    assert (status["reason"], status["code"]) == ("Expired", 410)
    writer.delete(names[3])
    with CONFIG.new_client_from_config(str(world.kubeconfig)) as api:
        certificates: Any = official.CertificatesV1Api(api)
        rest = certificates.list_certificate_signing_request(
            label_selector=f"run={label}", limit=2, _continue=status["metadata"]["continue"]
        )
        # The deletion is seen, though the list began before it.
        assert first + [item.metadata.name for item in rest.items] == [*names[:3], names[4]]
        assert not rest.metadata._continue
    writer.delete_all(f"run={label}")


@pytest.mark.parametrize("version", peers.OLD_AND_NEW_VERSIONS)
def test_an_expired_page_with_kubectl(version: str, writer: OfficialClient, world: InteropWorld) -> None:
    label = unique("kubectl")
    status, _, names = expired_page(writer, world, label)

    def kubectl(*arguments: str) -> processes.Ended:
        program = peers.kubectl(version)
        return processes.run(program, *arguments, cwd=world.folder, KUBECONFIG=str(world.kubeconfig))

    path = f"{REQUESTS}?labelSelector=run%3D{label}&limit=2&continue={status['metadata']['continue']}"
    rest = json.loads(kubectl("get", "--raw", path).stdout)
    assert [item["metadata"]["name"] for item in rest["items"]] == names[2:4]
    paged = kubectl("get", "csr", "-l", f"run={label}", "--chunk-size=2", "-o", "name")
    assert [line.partition("/")[2] for line in paged.stdout.split()] == names
    writer.delete_all(f"run={label}")
