"""Of every request one program makes the certificate, whoever else signs on a cluster of Kubernetes' own programs."""

from __future__ import annotations

import base64
import json
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import peers
import processes
from fixed_ports import free_port
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.manifest_parts import Settings, documents, trees
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER
from real_cluster import PATIENCE_SECONDS, RealCluster

_DEPLOY = peers.ROOT / "deploy"
_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_OPEN = "--authorization-always-allow-paths=/readyz,/livez,/metrics"
_NAMED = "--controllers=*,csrapproving,csrsigning"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path) as found:
        yield found


def _signing(cluster: RealCluster) -> tuple[str, ...]:
    return (
        f"--cluster-signing-cert-file={cluster.ca_certificate}", f"--cluster-signing-key-file={cluster.ca_key}",
    )  # fmt: skip


def _attestation(cluster: RealCluster) -> str:
    path = cluster.folder / "attestation.yaml"
    settings = f"settings: {{rootsFile: {cluster.ca_certificate}, nodeName: commonName}}"
    head = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\nattestors:\n"
    path.write_text(f"{head}- provider: x509pop\n  {settings}\n")
    return f"--attestation-config={path}"


class Controllers:
    """A running ``kubevouch controllers``."""

    def __init__(self, cluster: RealCluster, log: Path, port: int) -> None:
        self._cluster, self._log, self._port = cluster, log, port

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def issued(self) -> list[str]:
        """The requests for which certificates were made here, handed out or not."""
        return re.findall(r'"certificate issued" csr="([^"]+)"', self.log)

    def get(self, path: str) -> tuple[int, str]:
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self._port}{path}", context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as err:
            return err.code, err.read().decode()


@contextmanager
def _running(cluster: RealCluster, *flags: str, user: Path | None = None) -> Iterator[Controllers]:
    path, port = cluster.folder / "controllers.log", free_port()
    command = [*processes.KUBEVOUCH, "controllers", f"--secure-port={port}", "--bind-address=127.0.0.1", _OPEN, *flags]
    environment = processes.environment(KUBECONFIG=str(user or cluster.kubeconfig))
    with path.open("wb") as log:
        process = subprocess.Popen(command, cwd=cluster.folder, env=environment, stdout=log, stderr=log)
    found = Controllers(cluster, path, port)
    try:
        _until(lambda: 'controller="certificatesigningrequest-signing-controller"' in found.log, found)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, found.log[-3000:]


def _until(holds: Any, found: Controllers) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, found.log[-4000:]
        threading.Event().wait(0.1)


def _ask(cluster: RealCluster, name: str, *, approved_by_hand: bool = True) -> None:
    """As the administrator, whom kube-controller-manager approves as if a machine had asked."""
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)
    spec = {
        "request": base64.b64encode(request).decode(), "signerName": _SIGNER,
        "usages": ["digital signature", "client auth"],
    }  # fmt: skip
    tree = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": spec,
    }  # fmt: skip
    done = cluster.kubectl("create", "-f", "-", given=json.dumps(tree))
    assert done.code == 0, done.stderr
    if approved_by_hand:
        # Whoever approves by rule may have been first.
        cluster.kubectl("certificate", "approve", name)


def _certificate(cluster: RealCluster, name: str) -> str:
    done = cluster.kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}")
    return done.stdout


def _joins(cluster: RealCluster, found: Controllers, *names: str) -> None:
    for name in names:
        _ask(cluster, name)
        _until(lambda name=name: _certificate(cluster, name), found)


def _checked(cluster: RealCluster, *flags: str) -> tuple[int, dict[str, Any]]:
    done = cluster.kubevouch("controllers", "check", "-o", "json", *flags)
    assert done.stdout, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    return done.code, tree


def _levels(tree: dict[str, Any]) -> dict[str, str]:
    """The first, which is the worst, of what is said about each."""
    return {each["about"]: each["level"] for each in reversed(tree["findings"])}


def test_a_ca_for_machines_that_prove_themselves_takes_no_name_of_kubernetes(cluster: RealCluster) -> None:
    cluster.start_controller_manager()
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    flags = (_attestation(cluster), *_signing(cluster))
    code, tree = _checked(cluster, *flags)
    assert code == 0
    assert sorted(tree["signs"]) == [
        "cluster.x-k8s.io/kube-apiserver-client-kubelet-x509pop", "cluster.x-k8s.io/kubelet-serving-x509pop",
    ]  # fmt: skip
    with _running(cluster, *flags) as found:
        _joins(cluster, found, "w1", "w2", "w3", "w4")
        assert found.issued == []
    bare = cluster.kubevouch("controllers", *_signing(cluster))
    assert bare.code == 3
    assert "no signer name for it" in bare.stderr


def test_who_would_sign_what_another_signs_is_refused_at_the_start_and_by_the_check(cluster: RealCluster) -> None:
    cluster.start_controller_manager()
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    _ask(cluster, "w1", approved_by_hand=False)
    end = time.monotonic() + PATIENCE_SECONDS
    while not _certificate(cluster, "w1"):
        assert time.monotonic() < end
    flags = (_NAMED, *_signing(cluster))
    refused = cluster.kubevouch("controllers", *flags)
    assert refused.code == 2
    assert f"somebody else signs {_SIGNER}: 1 request" in refused.stderr
    assert "certificate issued" not in refused.stderr
    code, tree = _checked(cluster, *flags)
    assert code == 2
    assert tree["signedElsewhere"] == [_SIGNER]
    assert {_levels(tree)[each] for each in ("csrapproving", "csrsigning")} == {"error"}
    # What was seen counts more than what is said.
    assert _checked(cluster, *flags, "--assume-off=csrsigning")[0] == 2


def test_beside_a_manager_of_which_nothing_is_known_every_request_is_signed_once(cluster: RealCluster) -> None:
    cluster.start_controller_manager()
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    flags = (_NAMED, *_signing(cluster))
    code, tree = _checked(cluster, *flags)
    assert code == 0
    assert _levels(tree)["csrsigning"] == "warning"
    with _running(cluster, *flags) as found:
        _joins(cluster, found, "w1", "w2", "w3", "w4")
        _until(lambda: "the signer stands aside" in found.log, found)
        assert found.issued == []
        _expect_told(cluster, found, "w1")


def _expect_told(cluster: RealCluster, found: Controllers, name: str) -> None:
    """In health, in a metric and by an Event on the request that has shown it."""
    _until(lambda: found.get("/readyz/other-signers")[0] == 500, found)
    assert found.get("/livez")[0] == 200
    samples = found.get("/metrics")[1]
    assert f'kubevouch_signer_ready{{signer="{_SIGNER}"}} 0.0' in samples
    assert f'kubevouch_certificates_signed_elsewhere_total{{signer="{_SIGNER}"}}' in samples
    events = cluster.kubectl("get", "events", "-A", "-o", "json").stdout
    about = [
        each["involvedObject"]["name"] for each in json.loads(events)["items"] if each["reason"] == "SignedElsewhere"
    ]
    assert about == [name]


def test_a_manager_that_comes_later_is_left_its_names_before_anything_is_signed_twice(cluster: RealCluster) -> None:
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    with _running(cluster, _NAMED, *_signing(cluster)) as found:
        _joins(cluster, found, "w1", "w2")
        assert found.issued == ["w1", "w2"]
        cluster.start_controller_manager()
        _joins(cluster, found, "w3", "w4", "w5", "w6")
        _until(lambda: "the signer stands aside" in found.log, found)
        assert found.issued == ["w1", "w2"]
        assert found.get("/readyz/other-signers")[0] == 500


def test_beside_a_manager_that_neither_approves_nor_signs_both_are_done_here(cluster: RealCluster) -> None:
    cluster.start_controller_manager("--controllers=*,-csrapproving,-csrsigning")
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    flags = (_NAMED, *_signing(cluster))
    code, tree = _checked(cluster, *flags)
    assert code == 0
    assert {_levels(tree)[each] for each in ("csrapproving", "csrsigning")} == {"warning"}
    code, tree = _checked(cluster, *flags, "--assume-off=csrapproving,csrsigning")
    assert code == 0
    assert {_levels(tree)[each] for each in ("csrapproving", "csrsigning")} == {"assumed"}
    with _running(cluster, *flags) as found:
        _joins(cluster, found, "w1", "w2")
        assert found.issued == ["w1", "w2"]
        assert found.get("/readyz/other-signers")[0] == 200
    # What was done here is not taken for somebody else's.
    code, tree = _checked(cluster, *flags)
    assert (code, tree["signedElsewhere"]) == (0, [])


def test_what_is_shipped_signs_no_name_of_kubernetes_by_its_own_arguments(cluster: RealCluster) -> None:
    cluster.start_controller_manager()
    assert cluster.kubectl("apply", "-k", _DEPLOY).code == 0
    _ask(cluster, "w1")
    for program in manifests.PROGRAMS:
        command, *flags = manifests.arguments(program)
        assert command == "controllers"
        code, tree = _checked(cluster, *flags)
        assert (code, tree["signs"], tree["signedElsewhere"]) == (0, [], []), tree


def test_the_account_of_the_shipped_signer_may_see_who_else_comes(cluster: RealCluster) -> None:
    cluster.start_controller_manager("--controllers=*,-csrsigning")
    settings = Settings(signers=(KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER))
    assert cluster.kubectl("apply", "-f", "-", given=documents(trees((), settings))).code == 0
    signer = settings.programs[1]
    token = cluster.kubectl("-n", manifests.NAMESPACE, "create", "token", signer.name).stdout.strip()
    user = cluster.write_kubeconfig(cluster.folder / "signer.conf", {"token": token})
    flags = (
        f"--controllers={','.join(signer.controllers)}", *_signing(cluster),
        f"--leader-elect-resource-name={signer.name}", f"--leader-elect-resource-namespace={manifests.NAMESPACE}",
    )  # fmt: skip
    with _running(cluster, *flags, user=user) as found:
        _joins(cluster, found, "w1", "w2")
        assert found.issued == ["w1", "w2"]
        assert "forbidden" not in found.log
