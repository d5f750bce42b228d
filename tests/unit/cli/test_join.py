from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.cli.main import run
from kubevouch.config.kubeconfig import Cluster as Stanza
from kubevouch.config.kubeconfig import Kubeconfig, dump
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing import Cluster
from throwaway_ca import ThrowawayCA

Capture = pytest.CaptureFixture[str]
TOKEN = "abcdef.0123456789abcdef"
HASH = "sha256:" + "0" * 64
KEY = keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256))
HEAD = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "bootstrapToken or file must be set"),
        (["--token", TOKEN], "bootstrapToken or file must be set"),
        (["a:1"], "the bootstrap token is invalid"),
        (["a:1", "--token", TOKEN], "using token-based discovery without caCertHashes can be unsafe"),
        (["a", "--token", TOKEN, "--discovery-token-ca-cert-hash", HASH], "missing port in address"),
        (["a:1", "--token", TOKEN, "--discovery-file", "/x"], "bootstrapToken and file cannot both be set"),
        (["--discovery-file", "http://a/x", "--tls-bootstrap-token", TOKEN], "the scheme must be https"),
        (["--discovery-file", "/nowhere", "--token", TOKEN], "not a valid HTTPS URL or a file on disk"),
        (["--discovery-file", "/etc/hostname"], "could not find authentication credentials"),
        (["a:1", "--tls-bootstrap-token", "x"], "the bootstrap token is invalid"),
        (["--config", "j.yaml", "--token", TOKEN], "can not mix '--config' with arguments [token]"),
        (["a:1", "--config", "j.yaml"], "got the address a:1 beside --config"),
        (
            [
                "a:1",
                "--token",
                TOKEN,
                "--discovery-token-ca-cert-hash",
                HASH,
                "--control-plane",
                "--certificate-key",
                "x",
            ],
            "expected 64 hexadecimal digits",
        ),
        (["a:1", "--token", TOKEN, "--discovery-token-ca-cert-hash", HASH, "--skip-phases", "x"], "invalid phase name"),
    ],
)
def test_what_cannot_be_meant(arguments: list[str], why: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(["join", *arguments, "--rootfs", str(tmp_path / "root")]) == 3
    assert why in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def _token(cluster: Cluster, capsys: Capture) -> str:
    assert run(["token", "create", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    return capsys.readouterr().out.strip()


def test_a_discovery_file_and_a_token_for_the_request(tmp_path: Path, capsys: Capture) -> None:
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        token = _token(cluster, capsys)
        bundle = (cluster.folder / "pki/ca.crt").read_bytes()
        path = tmp_path / "discovery.conf"
        path.write_text(dump(Kubeconfig(clusters={"": Stanza(server=cluster.url, certificate_authority_data=bundle)})))
        flags = ["--discovery-file", str(path), "--tls-bootstrap-token", token, "--node-name", "worker-1"]
        assert run(["join", *flags, "--rootfs", str(tmp_path / "root")]) == 0
        assert "joined as system:node:worker-1" in capsys.readouterr().out
        assert run(["join", *flags, "--rootfs", str(tmp_path / "root")]) == 0
        assert "this machine has joined before" in capsys.readouterr().out
        config = tmp_path / "join.yaml"
        config.write_text(
            f"{HEAD}discovery:\n  file: {{kubeConfigPath: {path}}}\n  tlsBootstrapToken: {token}\n"
            "nodeRegistration: {name: worker-2}\ntimeouts: {discovery: 5s, tlsBootstrap: 30s}\n"
        )
        assert run(["join", "--config", str(config), "--rootfs", str(tmp_path / "second")]) == 0
        assert "joined as system:node:worker-2" in capsys.readouterr().out
        config.write_text(config.read_text() + "discoverry: {}\n")
        assert run(["join", "--config", str(config), "--rootfs", str(tmp_path / "third")]) == 3
        assert 'unknown field "discoverry"' in capsys.readouterr().err


def _where(cluster: Cluster, capsys: Capture) -> list[str]:
    address = cluster.url.removeprefix("https://")
    return [address, "--token", _token(cluster, capsys), "--discovery-token-ca-cert-hash", cluster.pin]


def test_a_key_that_was_made_beforehand(tmp_path: Path, capsys: Capture) -> None:
    key = keys.generate(KeyAlgorithm.ECDSA_P384)
    path = tmp_path / "node.key"
    path.write_bytes(keys.to_pem(key))
    path.chmod(0o600)
    digest = f"sha256:{keys.public_key_of(key).fingerprint().hex()}"
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        admin = ["--kubeconfig", str(cluster.kubeconfig)]
        assert run(["token", "create", "--key", digest, *admin]) == 0
        token = capsys.readouterr().out.split()[0]
        there = [cluster.url.removeprefix("https://"), "--token", token, "--discovery-token-ca-cert-hash", cluster.pin]
        flags = [*there, "--node-name", "worker-1", "--rootfs"]
        assert run(["join", *flags, str(tmp_path / "other")]) != 0
        assert "key" in capsys.readouterr().err
        assert run(["join", *flags, str(tmp_path / "root"), "--key-file", str(path)]) == 0
    pair = CertificateStore(tmp_path / "root/var/lib/kubelet/pki").current()
    assert pair is not None and keys.to_pem(pair.key) == keys.to_pem(key)
    assert not (tmp_path / "root/var/lib/kubelet/pki/kubelet-client.key.tmp").exists()


@pytest.mark.parametrize(("mode", "text", "why"), [(0o644, KEY, "cannot be used"), (0o600, b"x", "no private key")])
def test_a_key_file_that_cannot_be_used(tmp_path: Path, capsys: Capture, mode: int, text: bytes, why: str) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(text)
    path.chmod(mode)
    flags = ["--token", TOKEN, "--discovery-token-ca-cert-hash", HASH, "--rootfs", str(tmp_path / "root")]
    assert run(["join", "127.0.0.1:1", *flags, "--key-file", str(path)]) == 3
    assert why in capsys.readouterr().err


def test_a_phase_alone_a_dry_run_and_documents(tmp_path: Path, capsys: Capture) -> None:
    root = tmp_path / "root"
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        there = [*_where(cluster, capsys), "--node-name", "worker-1", "--rootfs", str(root)]
        assert run(["join", *there, "--dry-run", "-o", "json"]) == 0
        planned = json.loads(capsys.readouterr().out)["wouldWrite"]
        assert str(root / "etc/kubernetes/kubelet.conf") in planned and not root.exists()
        assert run(["join", "phase", "kubelet-start", *there, "--dry-run"]) == 0
        assert "would write" in capsys.readouterr().out and not root.exists()

        assert run(["join", "phase", "preflight", "--rootfs", str(root)]) == 0
        assert capsys.readouterr().out == "  ✓ done: preflight\n"
        assert run(["join", "phase", "kubelet-start", *there]) == 0
        assert [path.name for path in (root / "etc/kubernetes").iterdir() if path.is_file()] == [
            "bootstrap-kubelet.conf"
        ]
        capsys.readouterr()
        # What is left there is enough for the next one.
        (tmp_path / "other/etc/kubernetes").mkdir(parents=True)
        left = (root / "etc/kubernetes/bootstrap-kubelet.conf").read_bytes()
        (tmp_path / "other/etc/kubernetes/bootstrap-kubelet.conf").write_bytes(left)
        alone = ["join", "phase", "kubelet-wait-bootstrap", "--rootfs", str(tmp_path / "other")]
        assert run([*alone, "--node-name", "worker-2", "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["phases"] == ["kubelet-wait-bootstrap"]
        assert (tmp_path / "other/etc/kubernetes/kubelet.conf").exists()
        assert run(["join", *there, "-o", "json"]) == 0
        shown = capsys.readouterr()
        tree = json.loads(shown.out)
        assert tree["nodeName"] == "worker-1" and tree["alreadyJoined"] is False
        assert tree["clientCertificate"]["notAfter"].endswith("Z")
        assert "✓ certificate issued" in shown.err

        # Nobody is there to ask for the serving certificate.
        assert run(["join", *there, "--wait", "--timeout", "1s"]) == 4
        assert "nobody has asked for a serving certificate yet" in capsys.readouterr().err
        pair = ThrowawayCA().issue("worker-1")
        (root / "var/lib/kubelet/pki/kubelet-server-current.pem").write_bytes(pair.certificate + pair.key)
        assert run(["join", *there, "--wait"]) == 0
        out = capsys.readouterr().out
        assert (
            "as system:node:worker-1, with a certificate until" in out and "it serves with a certificate until" in out
        )
        assert run(["join", *there, "--wait", "-o", "yaml"]) == 0
        assert "servingCertificate:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "got no phase"),
        (["x"], "invalid phase name: x"),
        (["etcd-join"], "which is not done here"),
        (["kubelet-start"], "bootstrapToken or file must be set"),
        (["kubelet-wait-bootstrap"], "bootstrap-kubelet.conf cannot be read: No such file or directory"),
        (["control-plane-join", "mark-control-plane"], "is for a control plane"),
        (["control-plane-prepare", "all", "a:1", "--token", TOKEN, "--discovery-token-ca-cert-hash", HASH], "is for a"),
    ],
)
def test_phases_that_cannot_be_meant(arguments: list[str], why: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(["join", "phase", *arguments, "--rootfs", str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert why in err
    if "phase" in why and "invalid" in why:
        assert "hint: the phases are preflight, control-plane-prepare, " in err
