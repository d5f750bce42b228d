"""Everything that people do to requests with kubectl, old and new, against a real process."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
import processes
from interop_world import InteropWorld, certificate_of, condition, interop_world, manifest, unique
from processes import Ended

APPROVAL = "/apis/certificates.k8s.io/v1/certificatesigningrequests/{}/approval"
STATUS = "/apis/certificates.k8s.io/v1/certificatesigningrequests/{}/status"


class Kubectl:
    """One kubectl against the cluster, with a cache of its own."""

    def __init__(self, world: InteropWorld, version: str) -> None:
        self.world = world
        self.version = tuple(int(part) for part in version.split("."))
        self.binary = peers.kubectl(version)
        self._home = world.folder / f"home-{version}"
        self._home.mkdir(exist_ok=True)

    @property
    def _variables(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.world.kubeconfig), "HOME": str(self._home)}

    def run(self, *arguments: str | Path, stdin: Any = None, **more: str) -> Ended:
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        return processes.run(self.binary, *arguments, cwd=self.world.folder, text=text, **self._variables, **more)

    def ok(self, *arguments: str | Path, stdin: Any = None, **more: str) -> str:
        ended = self.run(*arguments, stdin=stdin, **more)
        assert ended.code == 0, ended
        return ended.stdout

    def create(self, name: str, **more: Any) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(self.ok("create", "-f", "-", "-o", "json", stdin=manifest(name, **more)))
        return tree

    def get(self, name: str) -> dict[str, Any]:
        tree: dict[str, Any] = json.loads(self.ok("get", "csr", name, "-o", "json"))
        return tree

    def follow(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.binary, *arguments], cwd=self.world.folder, env=processes.environment(**self._variables),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteropWorld]:
    with interop_world(tmp_path_factory.mktemp("kubectl")) as world:
        yield world


@pytest.fixture(params=peers.OLD_AND_NEW_VERSIONS)
def kubectl(world: InteropWorld, request: pytest.FixtureRequest) -> Kubectl:
    return Kubectl(world, request.param)


def test_create_list_in_pages_and_delete(kubectl: Kubectl) -> None:
    label = unique("run")
    for number in range(5):
        kubectl.create(f"{label}-{number}", labels={"run": label})
    names = kubectl.ok("get", "csr", "-l", f"run={label}", "--chunk-size=2", "-o", "name").split()
    assert [name.rpartition("/")[2] for name in names] == [f"{label}-{number}" for number in range(5)]
    table = kubectl.ok("get", "csr", "-l", f"run={label}", "--chunk-size=2", "--sort-by=.metadata.name").splitlines()
    assert table[0].split()[:2] == ["NAME", "AGE"]
    assert len(table) == 6
    assert kubectl.ok("get", "csr", "--field-selector", f"metadata.name={label}-3", "-o", "name").endswith("-3\n")
    first = f"/apis/certificates.k8s.io/v1/certificatesigningrequests?labelSelector=run%3D{label}&limit=2"
    page = json.loads(kubectl.ok("get", "--raw", first))
    assert len(page["items"]) == 2
    # Nobody counts what a selector leaves.
    assert set(page["metadata"]) == {"resourceVersion", "continue"}
    assert kubectl.ok("delete", "csr", "-l", f"run={label}").count("deleted") == 5
    assert "No resources found" in kubectl.run("get", "csr", "-l", f"run={label}").stderr


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", [{"op": "add", "path": "/metadata/labels/added", "value": "yes"}]),
        ("merge", {"metadata": {"labels": {"added": "yes", "gone": None}}}),
        ("strategic", {"metadata": {"labels": {"added": "yes", "gone": None}}}),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: Any) -> None:
    name = unique("patched")
    kubectl.create(name, labels={"kept": "yes"})
    assert kubectl.ok("patch", "csr", name, "--type", kind, "-p", json.dumps(patch)).endswith(f"{name} patched\n")
    assert "(no change)" in kubectl.ok("patch", "csr", name, "--type", kind, "-p", json.dumps(patch))
    assert kubectl.get(name)["metadata"]["labels"] == {"kept": "yes", "added": "yes"}
    kubectl.ok("delete", "csr", name)


def test_label_annotate_replace_and_edit(kubectl: Kubectl) -> None:
    name = unique("changed")
    kubectl.create(name, labels={"who": "me"})
    assert kubectl.ok("label", "csr", name, "team=red").endswith(f"{name} labeled\n")
    refused = kubectl.run("label", "csr", name, "team=blue")
    assert refused.code == 1
    assert "already has a value" in refused.stderr
    kubectl.ok("label", "csr", name, "team=blue", "--overwrite")
    assert kubectl.ok("annotate", "csr", name, "note=read").endswith(f"{name} annotated\n")
    found = kubectl.get(name)
    assert found["metadata"]["labels"] == {"who": "me", "team": "blue"}
    assert found["metadata"]["annotations"] == {"note": "read"}
    found["metadata"]["labels"] = {"who": "you"}
    assert kubectl.ok("replace", "-f", "-", stdin=found).endswith(f"{name} replaced\n")
    stale = kubectl.run("replace", "-f", "-", stdin=found)
    assert stale.code == 1
    assert "the object has been modified" in stale.stderr
    assert kubectl.ok("edit", "csr", name, EDITOR="sed -i s/you/them/").endswith(f"{name} edited\n")
    assert kubectl.get(name)["metadata"]["labels"] == {"who": "them"}
    assert "cancelled, no changes made" in kubectl.run("edit", "csr", name, EDITOR="true").stderr
    kubectl.ok("delete", "csr", name)


def test_apply_and_diff(kubectl: Kubectl) -> None:
    name = unique("applied")
    wanted = manifest(name, labels={"a": "1", "b": "2"})
    added = kubectl.run("diff", "-f", "-", stdin=wanted)
    assert added.code == 1
    assert f"+  name: {name}" in added.stdout
    assert kubectl.ok("apply", "-f", "-", stdin=wanted).endswith(f"{name} created\n")
    assert kubectl.run("diff", "-f", "-", stdin=wanted).code == 0
    assert kubectl.ok("apply", "-f", "-", stdin=wanted).endswith(f"{name} unchanged\n")
    kubectl.ok("label", "csr", name, "theirs=3")
    wanted["metadata"]["labels"] = {"a": "one"}
    changed = kubectl.run("diff", "-f", "-", stdin=wanted)
    assert changed.code == 1
    assert "+    a: one" in changed.stdout
    assert kubectl.ok("apply", "-f", "-", stdin=wanted).endswith(f"{name} configured\n")
    assert kubectl.get(name)["metadata"]["labels"] == {"a": "one", "theirs": "3"}
    kubectl.ok("apply", "view-last-applied", "csr", name)
    kubectl.ok("delete", "csr", name)


def test_apply_server_side_with_a_conflict_and_by_force(kubectl: Kubectl) -> None:
    name = unique("served")
    wanted = manifest(name, labels={"who": "first"})
    assert kubectl.ok("apply", "--server-side", "--field-manager=first", "-f", "-", stdin=wanted).endswith(
        f"{name} serverside-applied\n"
    )
    wanted["metadata"]["labels"] = {"who": "second"}
    refused = kubectl.run("apply", "--server-side", "--field-manager=second", "-f", "-", stdin=wanted)
    assert refused.code == 1
    assert 'conflict with "first": .metadata.labels.who' in refused.stderr
    kubectl.ok(
        "apply", "--server-side", "--field-manager=second", "--force-conflicts", "-f", "-", stdin=wanted
    )  # fmt: skip
    assert kubectl.get(name)["metadata"]["labels"] == {"who": "second"}
    kubectl.ok("delete", "csr", name)


def test_approve_deny_and_what_comes_after(kubectl: Kubectl) -> None:
    approved, denied = unique("approved"), unique("denied")
    kubectl.create(approved)
    kubectl.create(denied)
    assert kubectl.ok("certificate", "approve", approved).endswith(f"{approved} approved\n")
    assert kubectl.ok("certificate", "deny", denied).endswith(f"{denied} denied\n")
    assert kubectl.ok("get", "csr", approved).split()[-1] == "Approved"
    assert kubectl.ok("get", "csr", denied).split()[-1] == "Denied"
    assert kubectl.run("certificate", "deny", approved).code == 1
    assert kubectl.run("certificate", "approve", denied).code == 1
    assert "Status:" in kubectl.ok("describe", "csr", denied)
    kubectl.ok("delete", "csr", approved, denied)


def test_sign_for_a_custom_signer(kubectl: Kubectl, world: InteropWorld) -> None:
    name = unique("signed")
    kubectl.create(name)
    kubectl.ok("certificate", "approve", name)
    found = kubectl.get(name)
    found["status"]["certificate"] = base64.b64encode(world.custom_ca.issue("someone").certificate).decode()
    kubectl.ok("replace", "--raw", STATUS.format(name), "-f", "-", stdin=found)
    assert certificate_of(kubectl.get(name)).subject.rfc4514_string() == "CN=someone"
    assert kubectl.ok("get", "csr", name).split()[-1] == "Approved,Issued"
    kubectl.ok("delete", "csr", name)


def test_approve_by_the_bare_subresource(kubectl: Kubectl) -> None:
    name = unique("raw")
    found = kubectl.create(name)
    found["status"] = {"conditions": [condition("Approved")]}
    kubectl.ok("replace", "--raw", APPROVAL.format(name), "-f", "-", stdin=found)
    assert kubectl.get(name)["status"]["conditions"][0]["reason"] == "Test"
    kubectl.ok("delete", "csr", name)


def test_explain_resources_and_versions(kubectl: Kubectl) -> None:
    explained = kubectl.ok("explain", "csr.spec.signerName")
    assert re.search(r"FIELD: +signerName", explained)
    assert "status" in kubectl.ok("explain", "csr", "--recursive")
    resources = kubectl.ok("api-resources", "--api-group=certificates.k8s.io", "-o", "wide")
    assert re.search(r"certificatesigningrequests +csr .*create.*patch.*watch", resources)
    assert "certificates.k8s.io/v1\n" in kubectl.ok("api-versions")
    assert "kubevouch" in json.loads(kubectl.ok("version", "-o", "json"))["serverVersion"]["gitVersion"]
    assert kubectl.ok("auth", "can-i", "--list").startswith("Resources ")


def test_wait_through_a_reconnect(kubectl: Kubectl, world: InteropWorld) -> None:
    """`kubectl wait` lists and watches again when its watch ends."""
    name = unique("awaited")
    kubectl.create(name)
    with kubectl.follow("wait", "--for=condition=Approved", f"csr/{name}", "--timeout=200s", "-v=6") as waiting:
        assert waiting.stderr is not None
        assert any("watch=true" in line and "200" in line for line in waiting.stderr)
        world.proxy.cut()
        kubectl.ok("label", "csr", name, "seen=yes")
        kubectl.ok("certificate", "approve", name)
        output, errors = waiting.communicate(timeout=processes.PATIENCE_SECONDS)
    assert output.endswith(f"{name} condition met\n"), errors
    kubectl.ok("delete", "csr", name)


def test_a_watch_from_before_a_restart_is_told_to_list_again(kubectl: Kubectl, world: InteropWorld) -> None:
    name = unique("old")
    version = kubectl.create(name)["metadata"]["resourceVersion"]
    kubectl.ok("label", "csr", name, "seen=yes")
    world.restart()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests?watch=1&timeoutSeconds=1&resourceVersion="
    event = json.loads(kubectl.ok("get", "--raw", path + version))
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"
    assert kubectl.get(name)["metadata"]["labels"] == {"seen": "yes"}
    kubectl.ok("delete", "csr", name)


def test_watch_prints_what_happens(kubectl: Kubectl, world: InteropWorld) -> None:
    label = unique("run")
    kubectl.create(f"{label}-0", labels={"run": label})
    with kubectl.follow("get", "csr", "-l", f"run={label}", "--watch", "-o", "name") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().strip().endswith(f"{label}-0")
        kubectl.create(f"{label}-1", labels={"run": label})
        assert watching.stdout.readline().strip().endswith(f"{label}-1")
        kubectl.ok("certificate", "approve", f"{label}-1")
        assert watching.stdout.readline().strip().endswith(f"{label}-1")
        watching.terminate()
        watching.communicate()
    kubectl.ok("delete", "csr", "-l", f"run={label}")
