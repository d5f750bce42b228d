from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.api.kubeconfig import Cluster as Stanza
from kubevouch.api.kubeconfig import Kubeconfig, dump
from kubevouch.cli.main import run
from kubevouch.testing import Cluster

Capture = pytest.CaptureFixture[str]
TOKEN = "abcdef.0123456789abcdef"
HASH = "sha256:" + "0" * 64
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
