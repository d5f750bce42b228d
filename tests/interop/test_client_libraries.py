"""One list of operations, done with each client library against a real process."""

from __future__ import annotations

import base64
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
import processes
from interop.clients.aio_official import AsyncioClient
from interop.clients.interface import Driver, PatchKind, Refused
from interop.clients.kr8s_client import Kr8sClient
from interop.clients.lightkube_client import LightkubeClient
from interop.clients.node import NodeClient
from interop.clients.official import OfficialClient
from interop_world import InteropWorld, certificate_of, condition, interop_world, manifest, unique

CLIENTS: dict[str, Callable[[Path], Driver]] = {
    "kubernetes": OfficialClient,
    "kubernetes-asyncio": AsyncioClient,
    "kr8s": Kr8sClient,
    "lightkube": LightkubeClient,
    "client-node": NodeClient,
}
# kr8s knows Kubernetes up to 1.35 and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version:UserWarning")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    with interop_world(tmp_path_factory.mktemp("libraries")) as world:
        yield world


@pytest.fixture(params=CLIENTS)
def client(world: InteropWorld, request: pytest.FixtureRequest) -> Driver:
    return CLIENTS[request.param](world.kubeconfig)


def test_create_get_replace_and_delete(client: Driver) -> None:
    name = unique("request")
    wanted = manifest(name, labels={"who": "me"})
    created = client.create(wanted)
    assert created["spec"]["username"] == "kubernetes-admin"
    assert created["spec"]["request"] == wanted["spec"]["request"]
    with pytest.raises(Refused, match="409 AlreadyExists"):
        client.create(wanted)
    found = client.get(name)
    assert found["metadata"]["uid"] == created["metadata"]["uid"]
    found["metadata"]["labels"] = {"who": "you"}
    assert client.replace(found)["metadata"]["labels"] == {"who": "you"}
    with pytest.raises(Refused, match="409 Conflict"):
        client.replace(found)
    client.delete(name)
    with pytest.raises(Refused, match="404 NotFound"):
        client.get(name)


def test_pages_and_delete_collection(client: Driver) -> None:
    label = unique("run")
    names = [f"{label}-{number}" for number in range(5)]
    for name in names:
        client.create(manifest(name, labels={"run": label}))
    pages = client.pages(f"run={label}", 2)
    assert [name for page in pages for name in page] == names
    if isinstance(client, (OfficialClient, AsyncioClient, NodeClient)):  # the others hide where pages end
        assert [len(page) for page in pages] == [2, 2, 1]
    client.delete_all(f"run={label}")
    assert [name for page in client.pages(f"run={label}", 2) for name in page] == []


PATCHES: dict[PatchKind, Any] = {
    "json": [{"op": "add", "path": "/metadata/labels/added", "value": "yes"}],
    "merge": {"metadata": {"labels": {"added": "yes"}}},
    "strategic": {"metadata": {"labels": {"added": "yes"}}},
}


@pytest.mark.parametrize("kind", PATCHES)
def test_patch(client: Driver, kind: PatchKind) -> None:
    name = unique("patched")
    client.create(manifest(name, labels={"kept": "yes"}))
    patched = client.patch(name, PATCHES[kind], kind)
    assert patched["metadata"]["labels"] == {"kept": "yes", "added": "yes"}
    with pytest.raises(Refused, match="404 NotFound"):
        client.patch(unique("nobody"), PATCHES[kind], kind)
    client.delete(name)


def test_apply_with_a_conflict_and_by_force(client: Driver) -> None:
    name = unique("applied")
    wanted = manifest(name, labels={"who": "first", "kept": "yes"})
    assert client.apply(wanted, "first")["metadata"]["labels"] == {"who": "first", "kept": "yes"}
    mine = {**wanted, "metadata": {"name": name, "labels": {"who": "second"}}}
    with pytest.raises(Refused, match="409 Conflict"):
        client.apply(mine, "second")
    forced = client.apply(mine, "second", force=True)
    assert forced["metadata"]["labels"] == {"who": "second", "kept": "yes"}
    managers = {entry["manager"]: entry["operation"] for entry in forced["metadata"]["managedFields"]}
    assert managers == {"first": "Apply", "second": "Apply"}
    client.delete(name)


def test_approve_and_sign_for_a_custom_signer(client: Driver, world: InteropWorld) -> None:
    name = unique("signed")
    created = client.create(manifest(name))
    approved = client.replace({**created, "status": {"conditions": [condition("Approved")]}}, "approval")
    assert [c["type"] for c in approved["status"]["conditions"]] == ["Approved"]
    issued = world.custom_ca.issue("someone").certificate
    approved["status"]["certificate"] = base64.b64encode(issued).decode()
    client.replace(approved, "status")
    found = certificate_of(client.get(name))
    assert found.subject.rfc4514_string() == "CN=someone"
    client.delete(name)


def test_deny(client: Driver) -> None:
    name = unique("denied")
    created = client.create(manifest(name))
    denied = client.replace({**created, "status": {"conditions": [condition("Denied")]}}, "approval")
    assert [c["type"] for c in denied["status"]["conditions"]] == ["Denied"]
    denied["status"]["conditions"].append(condition("Approved"))
    with pytest.raises(Refused, match="422 Invalid"):
        client.replace(denied, "approval")
    client.delete(name)


def test_watch_through_a_reconnect_and_through_a_compaction(client: Driver, world: InteropWorld) -> None:
    """The restarted process has no history, so the version that a client resumes from is too old (410)."""
    label = unique("watched")
    names = [f"{label}-{when}" for when in ("listed", "live", "reconnected", "relisted", "after")]
    heard: queue.Queue[str] = queue.Queue()

    def hear(name: str) -> bool:
        heard.put(name)
        return name == names[-1]

    def create_and_hear(name: str) -> None:
        old.append(client.create(manifest(name, labels={"run": label}))["metadata"]["resourceVersion"])
        while (got := heard.get(timeout=processes.PATIENCE_SECONDS)) != name:
            assert got in names, "the watch ended"

    def watching() -> None:
        try:
            client.watch(f"run={label}", hear)
        finally:
            heard.put("")

    old: list[str] = []
    client.create(manifest(names[0], labels={"run": label}))
    # A daemon: where the test fails, nobody ends the watch.
    thread = threading.Thread(target=watching, daemon=True)
    thread.start()
    assert heard.get(timeout=processes.PATIENCE_SECONDS) == names[0]
    create_and_hear(names[1])
    world.proxy.cut()
    create_and_hear(names[2])
    world.restart()
    assert '"code":410' in watched_from(world, old[0])
    for name in names[3:]:
        create_and_hear(name)
    thread.join(processes.PATIENCE_SECONDS)
    assert not thread.is_alive()
    client.delete_all(f"run={label}")


def watched_from(world: InteropWorld, version: str) -> str:
    """What a bare watch from an old version prints."""
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests?watch=1&timeoutSeconds=1&resourceVersion={version}"
    newest = peers.kubectl(peers.OLD_AND_NEW_VERSIONS[0])
    ended = processes.run(newest, "get", "--raw", path, cwd=world.folder, KUBECONFIG=str(world.kubeconfig))
    return ended.stdout + ended.stderr
