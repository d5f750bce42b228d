"""Programs of client-go and the official Python client, whose certificate the exec plug-in gets by proving itself.

The kubeconfig is that of a kubelet which leaves its certificate to the plug-in, and what the plug-in itself reads to
find the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from interop.test_operator_tools import console_scripts
from peers import OLD_AND_NEW_VERSIONS, kubectl
from processes import Ended, Up, kubevouch, run

TESTS = str(Path(__file__).parents[1])
_UNTYPED: Any = config
CONFIGURATION = """
apiVersion: kubevouch.io/v1alpha1
kind: AttestationConfiguration
attestors:
- provider: "null"
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "attestation.yaml").write_text(CONFIGURATION)
    arguments = ("--attestation-config", "attestation.yaml")
    with Up(folder, arguments, variables={"PYTHONPATH": TESTS}) as running:
        yield running


@dataclass
class Machine:
    """A machine that kubelet-start has left at the kubelet's first start."""

    up: Up
    folder: Path
    name: str
    identity: str

    def __post_init__(self) -> None:
        _, discovery, authentication, pin = self.up.printed_join
        started = kubevouch(
            "join", "phase", "kubelet-start", f"127.0.0.1:{self.up.port}", "--discovery-token", discovery,
            "--tls-bootstrap-token", authentication, "--discovery-token-ca-cert-hash", pin, "--node-name", self.name,
            "--rootfs", self.root, cwd=self.folder,
        )  # fmt: skip
        assert started.code == 0, started
        self.path = console_scripts(self.folder)
        program = self.folder / "kubelet-authenticator-null"
        program.write_text((self.folder / "kubelet-authenticator-tpm").read_text())
        program.chmod(0o755)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def kubelet_conf(self) -> Path:
        return self.root / "etc/kubernetes/kubelet.conf"

    def configure(self, version: str, *settings: str) -> None:
        tree = yaml.safe_load((self.root / "etc/kubernetes/bootstrap-kubelet.conf").read_text())
        said = (f"identity={self.identity}", *settings)
        tree["users"][0]["user"] = {
            "exec": {
                "apiVersion": f"client.authentication.k8s.io/{version}",
                "command": str(self.folder / "kubelet-authenticator-null"),
                "args": [
                    "--rootfs", str(self.root), "--node-name", self.name, "--timeout", "120",
                    *(part for each in said for part in ("--provider-setting", each)),
                ],
                "env": [{"name": "PYTHONPATH", "value": TESTS}],
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
        }  # fmt: skip
        self.kubelet_conf.touch(mode=0o600)
        self.kubelet_conf.write_text(yaml.safe_dump(tree))

    def kubectl(self, version: str, *arguments: str) -> Ended:
        return run(
            kubectl(version), "--kubeconfig", self.kubelet_conf, *arguments, cwd=self.folder, PATH=self.path
        )  # fmt: skip

    def requests(self) -> list[Any]:
        shown = run(
            kubectl(OLD_AND_NEW_VERSIONS[0]), "--kubeconfig", self.up.folder / "cluster/admin.conf", "get", "csr", "-o",
            "json", cwd=self.folder,
        )  # fmt: skip
        assert shown.code == 0, shown
        items = json.loads(shown.stdout)["items"]
        mine = [each for each in items if each["spec"]["username"] == f"system:node:{self.name}"]
        first = [each for each in items if each["spec"]["username"].startswith("system:bootstrap:")]
        return [*first, *mine]


def test_a_machine_that_proves_itself_when_it_is_asked_who_it_is(up: Up, tmp_path: Path) -> None:
    machine = Machine(up, tmp_path, "worker-1", "m1")
    for version in reversed(OLD_AND_NEW_VERSIONS):
        machine.configure("v1beta1" if version == "1.20" else "v1")
        allowed = machine.kubectl(version, "auth", "can-i", "create", "certificatesigningrequests")
        assert (allowed.code, allowed.stdout) == (0, "yes\n"), allowed
    # The first of them proved itself, the others found the pair.
    (first,) = machine.requests()
    assert first["spec"]["signerName"] == "cluster.x-k8s.io/kube-apiserver-client-kubelet-null"
    # What it shows is another thing now, and so it proves itself again, as the node that it is.
    machine.configure("v1", "strength=measured")
    with _UNTYPED.new_client_from_config(str(machine.kubelet_conf)) as api:
        review: Any = client.AuthenticationV1Api(api).create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username == "system:node:worker-1"
    _, again = machine.requests()
    assert again["spec"]["username"] == "system:node:worker-1"
    assert again["status"]["certificate"]


def test_a_machine_that_asks_for_a_second_name(up: Up, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    machine, copy = (Machine(up, tmp_path / each, f"worker-{each}", "m2") for each in "ab")
    machine.configure("v1")
    assert machine.kubectl("1.37", "auth", "can-i", "create", "certificatesigningrequests").code == 0
    copy.configure("v1")
    refused = copy.kubectl("1.37", "get", "--raw", "/version")
    assert refused.code == 1
    why = "is denied, reason: AttestationRefused, message: has-another-name: null m2 is node worker-a"
    assert why in refused.stderr
    assert "kubelet-authenticator-null failed with exit code 1" in refused.stderr
    # kubectl has run it again at once, as often as it does, and it has not asked again at once.
    assert [each["spec"]["signerName"] for each in copy.requests() if each["metadata"]["name"] in refused.stderr] == [
        "cluster.x-k8s.io/kube-apiserver-client-kubelet-null"
    ]
