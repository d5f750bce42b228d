from __future__ import annotations

import inspect
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubevouch.api import catalog
from kubevouch.cli.init import PHASES
from kubevouch.cli.main import run
from kubevouch.phases.init import WORK, Phase
from kubevouch.testing import Cluster

Capture = pytest.CaptureFixture[str]
DISK = "--skip-phases=upload-config,upload-certs,bootstrap-token,cluster-info"
TOKEN = "abcdef.x4mz8tbr5hcp1vdy"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, controllers=("*",)) as running:
        yield running


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_files_in_another_root_and_away_again(tmp_path: Path, capsys: Capture) -> None:
    root = tmp_path / "root"
    assert run(["init", "--rootfs", str(root), DISK, "--dry-run"]) == 0
    planned = {line.removeprefix(f"would write {root}/") for line in capsys.readouterr().out.splitlines()}
    assert not root.exists()
    assert run(["init", "--rootfs", str(root), DISK]) == 0
    made = _files(root)
    assert planned < made and len(made) == 27
    assert run(["reset", "--rootfs", str(root), "--dry-run"]) == 0
    assert _files(root) == made
    capsys.readouterr()
    assert run(["reset", "--rootfs", str(root), "-f"]) == 0
    assert "20 files and folders removed" in capsys.readouterr().out
    assert _files(root) == set()
    assert run(["reset", "--rootfs", str(root)]) == 0
    assert "there is nothing to remove" in capsys.readouterr().out


def test_one_phase_alone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert run(["init", "phase", "certs", "--rootfs", str(root)]) == 0
    assert all(name.startswith("etc/kubernetes/pki/") for name in _files(root))
    assert run(["init", "phase", "kubeconfig", "--rootfs", str(root)]) == 0
    assert "etc/kubernetes/admin.conf" in _files(root)
    assert run(["init", "phase", "control-plane", "--rootfs", str(root)]) == 3


def test_the_phases_of_the_api_and_a_machine_that_joins_by_them(
    cluster: Cluster, tmp_path: Path, capsys: Capture
) -> None:
    flags = ["--kubeconfig", str(cluster.kubeconfig), "--cert-dir", str(cluster.folder / "pki")]
    wanted = ["--token", TOKEN, "--upload-certs", "--control-plane-endpoint", "api.example:8443"]
    assert run(["init", "--skip-phases", "preflight,certs,kubeconfig", *flags, *wanted]) == 0
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines() if line.strip().startswith("kubevouch join")]
    assert lines[0].startswith(f"kubevouch join {cluster.url.removeprefix('https://')} --token {TOKEN} ")
    assert " --control-plane --certificate-key " in lines[1]
    config = yaml.safe_load(
        cluster.get(catalog.CONFIG_MAPS, "kubeadm-config", "kube-system").data["ClusterConfiguration"]
    )
    assert config["controlPlaneEndpoint"] == "api.example:8443"
    # Paths of the machines that join, not of the server whose folder --cert-dir is.
    assert config["certificatesDir"] == "/etc/kubernetes/pki"
    kubelet = yaml.safe_load(cluster.get(catalog.CONFIG_MAPS, "kubelet-config", "kube-system").data["kubelet"])
    assert kubelet["authentication"]["x509"]["clientCAFile"] == "/etc/kubernetes/pki/ca.crt"
    assert "whoever has the token can become any node whose name is free" in out
    secret = cluster.get(catalog.SECRETS, "kubeadm-certs", "kube-system")
    assert set(secret.data) >= {"ca.key", "sa.key", "etcd-ca.key"} and not secret.data["etcd-ca.key"]
    command = [*shlex.split(lines[0])[1:], "--node-name", "worker-1", "--rootfs", str(tmp_path)]
    assert run([*command, "--dry-run"]) == 0
    assert _files(tmp_path) == set()
    assert run(command) == 0
    assert "var/lib/kubelet/config.yaml" in _files(tmp_path)


def test_an_empty_token_makes_none(cluster: Cluster, capsys: Capture) -> None:
    flags = ["--kubeconfig", str(cluster.kubeconfig), "--cert-dir", str(cluster.folder / "pki"), "--token", ""]
    assert run(["init", "--skip-phases", "preflight,certs,kubeconfig", *flags]) == 0
    assert "kubevouch join" not in capsys.readouterr().out
    secrets = cluster.list(catalog.SECRETS, "kube-system")
    assert not [each for each in secrets if each.type == "bootstrap.kubernetes.io/token"]
    # The rights with which machines join are there, for a token that comes later.
    assert cluster.get(catalog.CLUSTER_ROLE_BINDINGS, "kubeadm:node-autoapprove-bootstrap")
    assert run(["init", "phase", "bootstrap-token", *flags, "--dry-run"]) == 0
    assert "Secret" not in capsys.readouterr().out


def test_a_configuration_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "init.yaml"
    path.write_text(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: blue\n"
        "certificatesDir: /srv/pki\nencryptionAlgorithm: ECDSA-P384\n"
    )
    root = tmp_path / "root"
    assert run(["init", "--config", str(path), "--rootfs", str(root), DISK, "--node-name", "cp"]) == 0
    assert "srv/pki/ca.crt" in _files(root)
    assert "kubernetes-admin@blue" in (root / "etc/kubernetes/admin.conf").read_text()
    capsys.readouterr()
    assert run(["init", "--config", str(path), "--rootfs", str(root), "--service-cidr", "10.0.0.0/8"]) == 3
    assert "can not mix '--config' with arguments [service-cidr]" in capsys.readouterr().err
    path.write_text(path.read_text() + "clusterNam: red\n")
    assert run(["init", "--config", str(path), "--rootfs", str(root)]) == 3
    assert 'unknown field "clusterNam"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--skip-phases", "addon"], "invalid phase name: addon"),
        (["--certificate-key", "abc"], "expected 64 hexadecimal digits"),
        (["--token", "abc"], "the bootstrap token cannot be used"),
        (["--key-algorithm", "ED25519"], "unknown key algorithm"),
        (["--config", "/nowhere.yaml"], "there is no file /nowhere.yaml"),
        (["--ignore-preflight-errors", "all,Swap"], "don't specify individual checks"),
        (["--apiserver-advertise-address", "x"], "expected an IP address"),
    ],
)
def test_what_cannot_be_meant(arguments: list[str], why: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(["init", "--rootfs", str(tmp_path / "root"), *arguments]) == 3
    assert why in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_a_server_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    port = "--apiserver-bind-port=1"
    assert run(["init", "--rootfs", str(tmp_path), "--apiserver-advertise-address=127.0.0.1", port, "--timeout=0"]) == 4
    assert "connection refused" in capsys.readouterr().err
    assert "etc/kubernetes/admin.conf" in _files(tmp_path)


def test_preflight_findings_are_told_one_by_one(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc/kubernetes/manifests").mkdir(parents=True)
    (tmp_path / "etc/kubernetes/manifests/x.yaml").touch()
    join = ["join", "127.0.0.1:1", "--token", TOKEN, "--discovery-token-ca-cert-hash", "sha256:" + "0" * 64]
    join += ["--rootfs", str(tmp_path), "--timeout", "1s", "--node-name", "worker-1"]
    assert run(join) == 2
    err = capsys.readouterr().err
    assert "error: DirAvailable--etc-kubernetes-manifests: /etc/kubernetes/manifests is not empty" in err
    assert "hint: --ignore-preflight-errors=DirAvailable--etc-kubernetes-manifests goes on nevertheless" in err
    assert run([*join, "--ignore-preflight-errors", "diravailable--etc-kubernetes-manifests"]) == 4
    assert "warning: DirAvailable--etc-kubernetes-manifests" in capsys.readouterr().err
    assert run([*join, "--skip-phases", "preflight"]) == 4


def test_nobody_answers_the_question(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["init", "phase", "certs", "--rootfs", str(tmp_path)]) == 0
    before = _files(tmp_path)
    for answer in ("", "n\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert run(["reset", "--rootfs", str(tmp_path)]) == 1
        assert "aborted; nothing was removed" in capsys.readouterr().err
    assert _files(tmp_path) == before
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run(["reset", "--rootfs", str(tmp_path)]) == 0
    assert _files(tmp_path) == set()


def test_documents_for_scripts(cluster: Cluster, tmp_path: Path, capsys: Capture) -> None:
    root = tmp_path / "root"
    assert run(["init", "--rootfs", str(root), "--dry-run", "-o", "json"]) == 0
    assert f"would write {root}/etc/kubernetes/pki/ca.crt" in json.loads(capsys.readouterr().out)["wouldDo"]
    assert run(["init", "--rootfs", str(root), DISK, "-o", "yaml"]) == 0
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["phases"] == ["certs", "kubeconfig", "preflight"]
    assert "✓ certificates" in shown.err
    flags = ["--kubeconfig", str(cluster.kubeconfig), "--cert-dir", str(cluster.folder / "pki"), "-o", "json"]
    assert run(["init", "--skip-phases", "preflight,certs,kubeconfig", *flags, "--token", TOKEN, "--upload-certs"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["tokens"] == [TOKEN] and len(tree["certificateKey"]) == 64
    assert tree["joinCommand"].startswith("kubevouch join ") and "--control-plane" in tree["controlPlaneJoinCommand"]
    assert run(["init", "phase", "bootstrap-token", *flags, "--token", TOKEN, "--skip-token-print"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["tokens"] == [] and tree["joinCommand"] == ""

    assert run(["reset", "--rootfs", str(root), "-o", "json"]) == 3
    assert run(["reset", "--rootfs", str(root), "-o", "json", "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)["wouldRemove"]
    assert len(_files(root)) == 27
    assert run(["reset", "--rootfs", str(root), "-o", "json", "--force"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == planned and not _files(root)


@pytest.mark.parametrize("name", PHASES)
def test_the_help_of_a_phase_says_what_it_does_reads_and_writes(name: str, capsys: Capture) -> None:
    assert run(["init", "phase", name, "--help"]) == 0
    shown = capsys.readouterr().out
    work = inspect.getdoc(WORK[Phase(name)])
    assert work is not None and "".join(work.split()) in "".join(shown.split())
    assert "Reads" in work and "Writes" in work
    # It shows the flags that the phase looks at, and takes those of the others.
    assert ("--ignore-preflight-errors CHECK" in shown) is (name == "preflight")
    assert ("--token-ttl" in shown) is (name == "bootstrap-token")
    assert ("--pod-network-cidr" in shown) is (name in ("certs", "kubeconfig", "upload-config"))


def test_every_phase_is_listed_with_what_it_does(capsys: Capture) -> None:
    assert list(PHASES) == [each.value for each in Phase] == [each.value for each in WORK]
    assert run(["init", "phase", "--help"]) == 0
    shown = "".join(capsys.readouterr().out.split())
    for work in WORK.values():
        assert "".join((inspect.getdoc(work) or "").partition("\n\n")[0].split()) in shown
    assert run(["init", "phase", "cert"]) == 3
    assert "did you mean certs?" in capsys.readouterr().err
