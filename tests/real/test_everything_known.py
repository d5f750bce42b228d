"""What a revocation reaches where kube-controller-manager signs, of which no ledger of ours has heard."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import identity_world as world
import peers
import processes
from fixed_ports import free_port
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.pki import keys
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.signature import PrivateKey
from real_cluster import PATIENCE_SECONDS, RealCluster

TOKEN, SECRET = "abcdef", "0123456789abcdef"
MANAGER = "--controllers=csrapproving,csrsigning,serviceaccount"
# As docs/howto/attached.md has them run in the cluster.
AS_DEPLOYED = "--controllers=*,-csrsigning,-certificatesigners,-podcertificaterequestsigning"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as found:
        found.start_controller_manager(MANAGER)
        assert found.kubectl("apply", "-k", peers.ROOT / "deploy").code == 0
        for name, role in (
            ("create", "system:node-bootstrapper"),
            ("approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"),
        ):
            binding = ("create", "clusterrolebinding", f"join-{name}", f"--clusterrole={role}")
            assert found.kubectl(*binding, "--group=system:bootstrappers").code == 0
        assert found.kubectl(
            "create", "clusterrolebinding", "renew", "--group=system:nodes",
            "--clusterrole=system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ).code == 0  # fmt: skip
        until(lambda: is_taken(found))
        yield found


def is_taken(cluster: RealCluster) -> bool:
    """Whether the server knows our kinds by now: for a while after their definitions came, it answers 503."""
    manifest = {
        "apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRevocation", "metadata": {"name": "probe"},
        "spec": {"revoked": {"users": ["nobody"]}, "reason": "superseded"},
    }  # fmt: skip
    return cluster.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(manifest)).code == 0


def token_of(cluster: RealCluster, token: str) -> Path:
    """A bootstrap token of this ID, and a kubeconfig with it."""
    done = cluster.kubectl(
        "-n", "kube-system", "create", "secret", "generic", f"bootstrap-token-{token}",
        "--type=bootstrap.kubernetes.io/token", f"--from-literal=token-id={token}",
        f"--from-literal=token-secret={SECRET}", "--from-literal=usage-bootstrap-authentication=true",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    return cluster.write_kubeconfig(cluster.folder / f"{token}.conf", {"token": f"{token}.{SECRET}"})


def ask(cluster: RealCluster, who: Path, name: str, node: str, signer: str = world.NODE_CLIENT) -> PrivateKey:
    """Post a request for the node's certificate; the key of it."""
    key = world.new_key()
    manifest = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(world.node_request(node, key)).decode(), "signerName": signer,
            "usages": ["digital signature", "client auth"],
        },
    }  # fmt: skip
    made = cluster.kubectl("create", "-f", "-", given=json.dumps(manifest), user=who)
    assert made.code == 0, made.stderr
    return key


def issued(cluster: RealCluster, name: str) -> bytes:
    """The certificate that kube-controller-manager has put into a request."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [cluster.kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}").stdout]
        return bool(found[0])

    until(is_there)
    return base64.b64decode(found[0])


def until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come to hold"
        threading.Event().wait(0.2)


def node_config(cluster: RealCluster, name: str, certificate: bytes, key: PrivateKey) -> Path:
    folder = cluster.folder
    (folder / f"{name}.pem").write_bytes(certificate)
    (folder / f"{name}-key.pem").touch(mode=0o600)
    (folder / f"{name}-key.pem").write_bytes(keys.to_pem(key))
    shown = {"client-certificate": str(folder / f"{name}.pem"), "client-key": str(folder / f"{name}-key.pem")}
    return cluster.write_kubeconfig(folder / f"{name}.conf", shown)


def fingerprint(certificate: bytes) -> str:
    return x509_certificate.parse_pem(certificate).fingerprint().hex()


def revocation(cluster: RealCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", "certrev", name, "-o", "json").stdout)
    return found


def listed(cluster: RealCluster, name: str) -> list[str]:
    found: list[str] = revocation(cluster, name).get("status", {}).get("certificates", [])
    return found


def denied(cluster: RealCluster, into: Path, *more: str | Path) -> tuple[processes.Ended, str]:
    done = cluster.kubevouch("revoke", "webhook-config", "--deny-list", "--into", into, *more)
    written = into / "authorization-config.yaml"
    return done, written.read_text() if written.exists() else ""


@contextmanager
def as_deployed(cluster: RealCluster) -> Iterator[Path]:
    """The controllers of deploy/, with the rights that deploy/ gives them; their ledger."""
    token = cluster.kubectl("-n", "kubevouch-system", "create", "token", "kubevouch-controllers")
    assert token.code == 0, token.stderr
    config = cluster.write_kubeconfig(cluster.folder / "controllers.conf", {"token": token.stdout.strip()})
    ledger = cluster.folder / "ledger.db"
    with (cluster.folder / "kubevouch.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *processes.KUBEVOUCH, "controllers", "--kubeconfig", str(config), AS_DEPLOYED,
                "--leader-elect-resource-namespace=kubevouch-system", "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}", f"--ledger={ledger}",
            ],
            cwd=cluster.folder, env=processes.environment(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield ledger
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_a_token_reaches_whom_it_let_in_though_another_program_has_signed(cluster: RealCluster, tmp_path: Path) -> None:
    token = token_of(cluster, TOKEN)
    key = ask(cluster, token, "first", "worker-1")
    joined = issued(cluster, "first")
    node = node_config(cluster, "worker-1", joined, key)
    ask(cluster, node, "second", "worker-1")
    renewed = issued(cluster, "second")
    stranger = token_of(cluster, "uvwxyz")
    ask(cluster, stranger, "third", "worker-2")
    other = issued(cluster, "third")
    theirs = {fingerprint(joined), fingerprint(renewed)}

    # Without any controller of ours.
    done = cluster.kubevouch("revoke", "--token", TOKEN, "--yes", "--name", "stolen")
    assert "2 certificates: 2 from requests" in done.stdout, done
    assert done.code != ExitCode.NOTHING_FOUND
    assert set(revocation(cluster, "stolen")["spec"]["revoked"]["certificates"]) == theirs
    written, text = denied(cluster, tmp_path / "plain")
    assert written.code == 0 and all(each in text for each in theirs) and fingerprint(other) not in text, written

    # With them; and whoever applies the object by kubectl names no fingerprint.
    with as_deployed(cluster) as ledger:
        until(lambda: set(listed(cluster, "stolen")) == theirs)
        by_hand = {
            "apiVersion": "kubevouch.io/v1alpha1", "kind": "CertificateRevocation", "metadata": {"name": "by-hand"},
            "spec": {"revoked": {"requesters": ["system:bootstrap:uvwxyz"]}, "reason": "keyCompromise"},
        }  # fmt: skip
        assert cluster.kubectl("create", "-f", "-", given=json.dumps(by_hand)).code == 0
        until(lambda: listed(cluster, "by-hand") == [fingerprint(other)])
        told = {each["type"]: each for each in revocation(cluster, "by-hand")["status"]["conditions"]}
        assert told["CertificatesFound"]["status"] == "True" and "from requests" in told["CertificatesFound"]["message"]
    # A ledger that has signed nothing takes nothing away.
    for more in ((), ("--ledger", ledger)):
        written, text = denied(cluster, tmp_path / f"list-{len(more)}", *more)
        assert written.code == 0 and all(each in text for each in (*theirs, fingerprint(other))), written


def test_a_revocation_catches_up_with_what_is_issued_after_it(cluster: RealCluster) -> None:
    token = token_of(cluster, "ghijkl")
    with as_deployed(cluster):
        # Approved, and not signed yet: one that waits for its approval would be denied.
        cluster.stop("kube-controller-manager")
        ask(cluster, token, "waiting", "worker-3", world.CLIENT)
        assert cluster.kubectl("certificate", "approve", "waiting").code == 0
        done = cluster.kubevouch("revoke", "--token", "ghijkl", "--yes", "--name", "early")
        assert done.code == ExitCode.NOTHING_FOUND and "got token ghijkl" in done.stderr, done

        def is_told() -> bool:
            conditions = revocation(cluster, "early").get("status", {}).get("conditions", [])
            return any((each["type"], each["reason"]) == ("CertificatesFound", "NothingFound") for each in conditions)

        until(is_told)
        cluster.start_controller_manager(MANAGER)
        certificate = issued(cluster, "waiting")
        until(lambda: listed(cluster, "early") == [fingerprint(certificate)])


def test_nothing_found_is_no_success(cluster: RealCluster, tmp_path: Path) -> None:
    done = cluster.kubevouch("revoke", "--token", "zzzzzz", "--yes", "--name", "nobody")
    assert done.code == ExitCode.NOTHING_FOUND, done
    assert "error: got token zzzzzz, expected at least one certificate" in done.stderr and "hint:" in done.stderr
    assert "looked at requests: Kubernetes deletes a request an hour after it is issued" in done.stdout
    written, text = denied(cluster, tmp_path / "partly")
    assert written.code == ExitCode.NOTHING_FOUND and "got no certificate of nobody," in written.stderr, written
    assert "id in [" in text and "id in []" not in text


def test_a_list_of_nothing_is_not_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    with RealCluster(folder) as empty:
        assert empty.kubectl("apply", "-f", peers.ROOT / "deploy" / "crds").code == 0
        until(lambda: is_taken(empty))
        written, text = denied(empty, folder / "none")
        assert written.code == 0 and "nothing is revoked" in written.stdout and '"false"' in text.replace("'", '"')
        assert empty.kubevouch("revoke", "--user", "alice", "--yes").code == ExitCode.NOTHING_FOUND
        written, text = denied(empty, folder / "nothing")
        assert (written.code, text) == (ExitCode.NOTHING_FOUND, ""), written
        assert "nothing is written" in written.stderr
