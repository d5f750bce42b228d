"""Who writes our objects is held to their own rights, by what the API server serves; without that they do nothing.

``--emulated-version`` plays servers of before MutatingAdmissionPolicies, as deploy/ and docs/howto/policies.md say it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import peers
import processes
from kubevouch.standalone.attached.manifests import NAMESPACE, PROGRAMS, arguments
from real_cluster import PATIENCE_SECONDS, RealCluster

DEPLOY, POLICY = peers.ROOT / "deploy", peers.ROOT / "examples" / "30-day-hosts.yaml"
_NAME = "k8s-hosts"
_MAY_WRITE = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: writes-policies}
rules:
- {apiGroups: [kubevouch.io], resources: [certificaterequestpolicies], verbs: [create, get, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: writes-policies}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writes-policies}
subjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]
"""


class Server(NamedTuple):
    flags: tuple[str, ...]
    guards: str
    version: str


SERVERS = {
    "1.36": Server((), "crds/guards.yaml", "MutatingAdmissionPolicy v1"),
    "1.35": Server(("--emulated-version=1.35",), "guards/validating.yaml", "ValidatingAdmissionPolicy v1"),
    "1.33": Server(("--emulated-version=1.33",), "guards/validating.yaml", "ValidatingAdmissionPolicy v1"),
    # The objects of 1.34 and 1.35 with the gate: a 1.36 that plays those looks for v1 only, and never gets ready.
    "v1beta1": Server(
        ("--runtime-config=admissionregistration.k8s.io/v1beta1=true",), "guards/v1beta1.yaml",
        "MutatingAdmissionPolicy v1",
    ),
}  # fmt: skip


def apply(cluster: RealCluster, *files: Path) -> None:
    done = cluster.kubectl("apply", *(word for each in files for word in ("-f", str(each))))
    assert (done.code, done.stderr) == (0, "")


@contextlib.contextmanager
def approving(cluster: RealCluster) -> Iterator[None]:
    """The approver of deploy/ as its account."""
    program = PROGRAMS[0]
    token = cluster.kubectl("-n", NAMESPACE, "create", "token", program.name).stdout.strip()
    config = cluster.write_kubeconfig(cluster.folder / "approver.conf", {"token": token})
    flags = [each for each in arguments(program) if not each.startswith("--secure-port")]
    with (cluster.folder / "approver.log").open("wb") as log:
        process = subprocess.Popen(
            [*processes.KUBEVOUCH, *flags, f"--kubeconfig={config}", "--secure-port=0"],
            cwd=cluster.folder, env=processes.environment(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def authorized(cluster: RealCluster, status: str) -> str:
    """The message of the policy's condition, once it has that status: it is looked at again every minute."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = cluster.kubectl("get", "certificaterequestpolicy", _NAME, "-o", "json")
        for each in json.loads(found.stdout).get("status", {}).get("conditions", []) if not found.code else []:
            if (each["type"], each["status"]) == ("Authorized", status):
                return str(each["message"])
        assert time.monotonic() < end, (cluster.folder / "approver.log").read_text(errors="replace")[-3000:]
        threading.Event().wait(0.2)


def guards_in(cluster: RealCluster) -> str:
    """What ``check`` says of them."""
    report = json.loads(cluster.kubevouch("controllers", "check", "-o", "json").stdout)
    (found,) = [each["message"] for each in report["findings"] if "guards" in each.values()]
    return str(found)


@pytest.mark.parametrize("name", SERVERS)
def test_a_policy_approves_once_its_writer_is_held_to_their_rights(tmp_path: Path, name: str) -> None:
    flags, guards, version = SERVERS[name]
    with RealCluster(tmp_path, flags=flags) as cluster:
        kinds = [each for each in sorted((DEPLOY / "crds").iterdir()) if each.name != "guards.yaml"]
        apply(cluster, *kinds, DEPLOY / "controllers" / "access.yaml")
        (tmp_path / "role.yaml").write_text(_MAY_WRITE)
        apply(cluster, tmp_path / "role.yaml")
        mallory = cluster.kubeconfig_of("mallory")
        with approving(cluster):
            # 1. Nobody looks at who writes: it is off, and says so.
            apply(cluster, POLICY)
            message = authorized(cluster, "False")
            assert "it approves nothing" in message and "no MutatingAdmissionPolicy writers.kubevouch.io" in message
            assert "what rests on those is off" in guards_in(cluster)
            # 2. With the guards for this server it is on, for those who hold the right themselves.
            apply(cluster, DEPLOY / guards)
            until_a_second_later(cluster)
            assert guards_in(cluster) == f"hold, by {version}"
            assert cluster.kubectl("delete", "-f", str(POLICY)).code == 0
            refused = cluster.kubevouch("policy", "apply", "-f", POLICY, user=mallory)
            assert refused.code != 0
            assert "needs a writer with the verb approve on signers.certificates.k8s.io" in refused.stderr
            written = cluster.kubevouch("policy", "apply", "-f", POLICY)
            assert (written.code, written.stdout) == (0, f"{_NAME} applied, admin answers for it\n")
            assert authorized(cluster, "True") == "admin may approve for every signer that it selects"
            # 3. Nobody writes in another's name.
            forged = cluster.kubectl(
                "patch", "certificaterequestpolicy", _NAME, "--type=merge", "-p", '{"spec":{"freshKey":false}}',
                user=mallory,
            )  # fmt: skip
            assert forged.code != 0 and "Forbidden" in forged.stderr


def until_a_second_later(cluster: RealCluster) -> None:
    """Times of objects are whole seconds, and a policy of the second of the guards may have come before them."""

    def times(kind: str) -> set[str]:
        found = cluster.kubectl("get", kind, "-o", "json")
        return {each["metadata"]["creationTimestamp"] for each in json.loads(found.stdout)["items"]}

    last = max(times("validatingadmissionpolicybindings") | times("namespaces"))
    number = 0
    while max(times("namespaces")) <= last:
        number += 1
        assert cluster.kubectl("create", "namespace", f"later-{number}").code == 0
