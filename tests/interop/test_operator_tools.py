"""kubectl with kubevouch as its credential plug-in, and kubevouch as a plug-in of kubectl."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import peers
import processes
from processes import Up


def minor(version: str) -> int:
    return int(version.partition(".")[2])


# The first kubectl that asks plug-ins for completions is 1.26.
COMPLETING = [version for version in peers.KUBECTL_VERSIONS if minor(version) >= 26]
# client.authentication.k8s.io/v1 came with 1.22, auth whoami with 1.28.
ASKING = [
    (version, api)
    for version in peers.KUBECTL_VERSIONS
    for api in ("v1", "v1beta1")
    if api == "v1beta1" or minor(version) >= 22
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("tools")) as up:
        assert up.join().code == 0
        yield up


def console_scripts(folder: Path) -> str:
    """A PATH with the console scripts of pyproject.toml, as an installation makes them."""
    declared = tomllib.loads((peers.ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, target in declared.items():
        module, _, function = target.partition(":")
        path = folder / name
        path.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        path.chmod(0o755)
    return f"{folder}:{processes.environment()['PATH']}"


@pytest.mark.parametrize(("version", "api"), ASKING)
def test_kubectl_asks_for_the_nodes_certificate(up: Up, tmp_path: Path, version: str, api: str) -> None:
    kubectl = peers.kubectl(version)
    tree = yaml.safe_load((up.folder / "cluster" / "admin.conf").read_text())
    tree["users"][0]["user"] = {
        "exec": {
            "apiVersion": f"client.authentication.k8s.io/{api}",
            "command": "kubevouch",
            "args": ["credential", "--rootfs", str(up.folder / "worker-1")],
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
    }
    config = tmp_path / "exec.conf"
    config.touch(mode=0o600)
    config.write_text(yaml.safe_dump(tree))
    path = console_scripts(tmp_path)
    ended = processes.run(
        kubectl, "auth", "can-i", "create", "certificatesigningrequests", cwd=tmp_path,
        KUBECONFIG=str(config), PATH=path,
    )  # fmt: skip
    assert (ended.code, ended.stdout) == (0, "yes\n"), ended
    if minor(version) >= 28:
        ended = processes.run(
            kubectl, "auth", "whoami", "-o", "json", cwd=tmp_path, KUBECONFIG=str(config), PATH=path
        )  # fmt: skip
        assert ended.stderr == ""
        assert json.loads(ended.stdout)["status"]["userInfo"]["username"] == "system:node:worker-1"


@pytest.mark.parametrize("version", peers.KUBECTL_VERSIONS)
def test_kubectl_vouch(up: Up, tmp_path: Path, version: str) -> None:
    kubectl, path = peers.kubectl(version), console_scripts(tmp_path)
    config = str(up.folder / "cluster" / "admin.conf")
    ended = processes.run(kubectl, "vouch", "csr", "list", cwd=tmp_path, KUBECONFIG=config, PATH=path)
    assert ended.code == 0, ended
    assert "worker-1 (node)" in ended.stdout
    ended = processes.run(kubectl, "vouch", "csr", "show", cwd=tmp_path, KUBECONFIG=config, PATH=path)
    assert "error: missing argument 'NAME'\nhint: see kubectl vouch csr show --help\n" in ended.stderr
    ended = processes.run(kubectl, "vouch", "doctor", "cluster", cwd=tmp_path, KUBECONFIG=config, PATH=path)
    assert (ended.code, ended.stderr) == (0, ""), ended


@pytest.mark.parametrize("version", COMPLETING)
def test_kubectl_completes_vouch(up: Up, tmp_path: Path, version: str) -> None:
    path = console_scripts(tmp_path)
    ended = processes.run(peers.kubectl(version), "__complete", "vouch", "csr", "l", cwd=tmp_path, PATH=path)
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("list\tList the requests")
    assert lines[-1] == ":4"
