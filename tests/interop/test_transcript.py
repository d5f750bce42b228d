"""The session of the README with real kubectl, word for word: every command that a person types."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
import processes
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from processes import Ended, Up


class Session:
    """One kubectl against one cluster."""

    def __init__(self, up: Up, kubectl: Path) -> None:
        self.up = up
        self.folder = up.folder
        self.binary = kubectl

    def kubectl(self, *arguments: str, text: str | None = None, kubeconfig: str = "./cluster/admin.conf") -> Ended:
        return processes.run(
            self.binary, *arguments, cwd=self.folder, text=text, KUBECONFIG=kubeconfig, HOME=str(self.folder)
        )

    def ok(self, *arguments: str, text: str | None = None, kubeconfig: str = "./cluster/admin.conf") -> str:
        ended = self.kubectl(*arguments, text=text, kubeconfig=kubeconfig)
        assert ended.code == 0, ended
        return ended.stdout

    def manifest(self, name: str, *, signer: str = "example.com/dolphins", node: str = "someone") -> str:
        """A CertificateSigningRequest in YAML."""
        key = keys.generate(KeyAlgorithm.ECDSA_P256)
        request = build_request(key, Subject(common_name=f"system:node:{node}"))
        return json.dumps(
            {
                "apiVersion": "certificates.k8s.io/v1",
                "kind": "CertificateSigningRequest",
                "metadata": {"name": name, "labels": {"from": "test"}},
                "spec": {
                    "request": base64.b64encode(request).decode(),
                    "signerName": signer,
                    "usages": ["digital signature", "client auth"],
                },
            }
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("transcript")) as up:
        yield up


@pytest.fixture(params=peers.DOCUMENTED_VERSIONS)
def session(cluster: Up, request: pytest.FixtureRequest) -> Session:
    return Session(cluster, peers.kubectl(request.param))


def test_up_prints_what_to_do_next(cluster: Up) -> None:
    ready, kubeconfig, deleted, power, joins, command = cluster.printed
    assert re.fullmatch(r"  ready in \d+\.\d s   https://\S+:\d+", ready)
    assert kubeconfig == "  kubeconfig       ./cluster/admin.conf"
    assert deleted == "  deleted nodes    locked out: once a Node is deleted, its machine's certificates are refused"
    assert power == "  whoever has the token can become any node whose name is free, for 24h"
    assert joins == "  a machine joins with"
    assert re.fullmatch(
        r"    kubevouch join \S+:\d+ --discovery-token [a-z0-9]{6}\.[a-z0-9]{16}"
        r" --tls-bootstrap-token [a-z0-9]{6}\.[a-z0-9]{16}"
        r" --discovery-token-ca-cert-hash sha256:[0-9a-f]{64}",
        command,
    )


def test_a_machine_joins_and_is_who_it_said(session: Session) -> None:
    name = f"worker-{session.binary.parent.name.replace('.', '-')}"
    before = session.ok("get", "csr", "-o", "name").split()
    with subprocess.Popen(
        [session.binary, "get", "csr", "--watch", "-o", "name"],
        cwd=session.folder,
        env=processes.environment(KUBECONFIG="./cluster/admin.conf"),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        ended = session.up.join(name=name)
        assert ended.code == 0, ended
        assert watching.stdout is not None
        seen = next(line for line in watching.stdout if line.strip() not in before)
        watching.terminate()
    request = re.search(r"request created +(\S+)", ended.stdout)
    assert request is not None
    assert seen.strip() == f"certificatesigningrequest.certificates.k8s.io/{request[1]}"
    for step in (
        "cluster-info fetched", "signature checked with the token", "CA matches the pin",
        "fetched again over trusted TLS, and equal", "API server asked for its version",
        "key made", "request created", "approved", "certificate issued",
        "files written",
    ):  # fmt: skip
        assert f"✓ {step}" in ended.stdout
    review = session.ok("auth", "whoami", "-o", "json", kubeconfig=f"./{name}/etc/kubernetes/kubelet.conf")
    user = json.loads(review)["status"]["userInfo"]
    assert user["username"] == f"system:node:{name}"
    assert user["groups"] == ["system:nodes", "system:authenticated"]


def test_approve_describe_and_delete(session: Session) -> None:
    name = f"manual-{session.binary.parent.name}"
    assert session.ok("create", "-f", "-", text=session.manifest(name)).strip().endswith(f"{name} created")
    assert "Pending" in session.ok("get", "csr", name)
    described = session.ok("describe", "csr", name)
    assert "system:node:someone" in described
    assert "kubernetes-admin" in described
    assert session.ok("certificate", "approve", name).strip().endswith(f"{name} approved")
    assert "Approved" in session.ok("get", "csr", name, "-o", "wide")
    assert session.ok("get", "csr", name, "-o", "jsonpath={.status.conditions[0].reason}") == "KubectlApprove"
    assert "signerName: example.com/dolphins" in session.ok("get", "csr", name, "-o", "yaml")
    refused = session.kubectl("certificate", "deny", name)
    assert refused.code == 1
    assert refused.stderr == f'error: certificate signing request "{name}" is already Approved\n'
    assert session.ok("delete", "csr", name).strip().startswith("certificatesigningrequest.certificates.k8s.io")
    assert session.kubectl("get", "csr", name).stderr == (
        f'Error from server (NotFound): certificatesigningrequests.certificates.k8s.io "{name}" not found\n'
    )


def test_deny_and_then_approve_is_refused(session: Session) -> None:
    name = f"denied-{session.binary.parent.name}"
    session.ok("create", "-f", "-", text=session.manifest(name))
    assert session.ok("certificate", "deny", name).strip().endswith(f"{name} denied")
    refused = session.kubectl("certificate", "approve", name)
    assert refused.code == 1
    assert refused.stderr == f'error: certificate signing request "{name}" is already Denied\n'
    session.ok("delete", "csr", "-l", "from=test")


def test_apply_twice_and_server_side(session: Session) -> None:
    name = f"applied-{session.binary.parent.name}"
    manifest = session.manifest(name)
    assert session.ok("apply", "-f", "-", text=manifest).strip().endswith("created")
    assert session.ok("apply", "-f", "-", text=manifest).strip().endswith("unchanged")
    labelled = manifest.replace('"from": "test"', '"from": "test", "more": "yes"')
    assert session.ok("apply", "-f", "-", text=labelled).strip().endswith("configured")
    assert (
        session.ok("apply", "--server-side", "--force-conflicts", "-f", "-", text=manifest)
        .strip()
        .endswith("serverside-applied")
    )
    assert session.ok("get", "csr", name, "-o", "jsonpath={.metadata.labels.from}") == "test"
    session.ok("delete", "csr", name)


def test_create_validates_against_the_schema(session: Session) -> None:
    wrong = session.manifest("wrong").replace('"signerName"', '"signer"')
    ended = session.kubectl("create", "-f", "-", text=wrong)
    assert ended.code == 1
    assert 'unknown field "spec.signer"' in ended.stderr


def test_rights_as_kubernetes_words_them(session: Session) -> None:
    assert (
        session.ok("auth", "can-i", "approve", "signers.certificates.k8s.io/kubernetes.io/kubelet-serving") == "yes\n"
    )
    ended = session.kubectl("get", "secrets", "--as", "nobody")
    assert ended.code == 1
    assert ended.stderr == (
        'Error from server (Forbidden): secrets is forbidden: User "nobody" cannot list resource "secrets" in API '
        'group "" in the namespace "default"\n'
    )
    assert session.kubectl("auth", "can-i", "get", "secrets", "--as", "nobody").stdout == "no\n"


def test_health_resources_and_explanations(session: Session) -> None:
    ready = session.ok("get", "--raw", "/readyz?verbose")
    assert "[+]ping ok" in ready
    assert ready.endswith("readyz check passed\n")
    resources = session.ok("api-resources")
    assert re.search(r"certificatesigningrequests +csr +certificates.k8s.io/v1 +false +Certificate", resources)
    explained = session.ok("explain", "csr.spec")
    assert "signerName" in explained
    assert "expirationSeconds" in explained


def test_no_person_is_in_masters(session: Session) -> None:
    rules = session.ok("get", "clusterrolebinding", "kubeadm:cluster-admins", "-o", "jsonpath={.subjects[0].name}")
    assert rules == "kubeadm:cluster-admins"
