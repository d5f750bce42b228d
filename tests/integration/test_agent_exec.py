"""An agent that begins with an exec credential: what a real program prints is what it asks with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.config import kubeconfig
from kubevouch.config.kubeconfig import ExecConfig, User
from processes import KUBEVOUCH, Up, kubevouch
from running_agent import RunningAgent, bootstrap_kubeconfig

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def _printer(folder: Path, text: str, code: int = 0) -> User:
    """A plug-in that prints ``text``, and leaves what it was told beside itself."""
    program, answer = folder / "plugin.py", folder / "answer"
    answer.write_text(text)
    program.write_text(
        "import os, sys\n"
        f"open({str(folder / 'told')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"sys.stdout.write(open({str(answer)!r}).read())\n"
        f"sys.exit({code})\n"
    )
    return _user(sys.executable, str(program))


def _user(command: str, *arguments: str) -> User:
    return User(
        exec=ExecConfig(
            api_version=V1, command=command, args=list(arguments), interactive_mode="Never", provide_cluster_info=True
        )
    )


def _token(token: str) -> str:
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": token}})


def test_a_plugin_that_prints_a_token(tmp_path: Path, up: Up) -> None:
    node = tmp_path / "node"
    bootstrap_kubeconfig(up.folder, node, _printer(tmp_path, _token(up.join_arguments[1])))
    with RunningAgent(tmp_path, node, ("--node-name", "by-token")) as agent:
        agent.until("certificate in use")
        assert agent.command("status").code == 0
    told = json.loads((tmp_path / "told").read_text())
    assert told["spec"]["interactive"] is False
    assert told["spec"]["cluster"]["server"].startswith("https://")
    # Once there is a certificate, nothing of the plug-in is left in the kubeconfig.
    config = kubeconfig.load((node / "etc/kubernetes/kubelet.conf").read_bytes())
    assert all(user.exec is None for user in config.users.values())


def test_the_plugin_of_another_certificate_folder(tmp_path: Path, up: Up) -> None:
    """``kubevouch credential`` shows the certificate of a machine that has joined; the agent makes one of its own."""
    assert up.join("--rootfs", str(tmp_path / "joined"), name="by-plugin").code == 0
    node = tmp_path / "node"
    bootstrap_kubeconfig(up.folder, node, _user(*KUBEVOUCH, "credential", "--rootfs", str(tmp_path / "joined")))
    with RunningAgent(tmp_path, node, ("--node-name", "by-plugin")) as agent:
        agent.until("certificate in use")
        found = agent.store.current()
    assert found is not None and found.leaf.subject.common_name == "system:node:by-plugin"
    # The request came from the node itself.
    shown = kubevouch("csr", "list", "-o", "json", "--kubeconfig", up.folder / "cluster/admin.conf", cwd=tmp_path)
    assert shown.code == 0 and '"system:node:by-plugin"' in shown.stdout


@pytest.mark.parametrize(
    ("name", "text", "code", "says"),
    [
        ("fails", "", 3, "exit code 3"),
        ("garbage", "no credential\n", 0, "decoding stdout"),
        ("refused", _token("abcdef.0123456789abcdef"), 0, "does not accept"),
    ],
)
def test_a_plugin_that_is_no_help(tmp_path: Path, up: Up, name: str, text: str, code: int, says: str) -> None:
    node = tmp_path / "node"
    bootstrap_kubeconfig(up.folder, node, _printer(tmp_path, text, code))
    with RunningAgent(tmp_path, node, ("--node-name", name)) as agent:
        agent.until("the attempt failed")
        shown = agent.command("status")
        assert shown.code == 1 and says in shown.stdout, shown.stdout
        # It is asked again at the next attempt.
        _printer(tmp_path, _token(up.join_arguments[1]))
        agent.command("rotate")
        agent.until("certificate in use")


def test_a_plugin_that_is_missing(tmp_path: Path, up: Up) -> None:
    node = tmp_path / "node"
    bootstrap_kubeconfig(up.folder, node, _user(str(tmp_path / "nowhere")))
    with RunningAgent(tmp_path, node, ("--node-name", "missing")) as agent:
        agent.until("the attempt failed")
        assert "executable nowhere not found" in agent.command("status").stdout
