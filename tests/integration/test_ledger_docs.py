"""docs/howto/ledger.md: its commands, against a cluster that runs, and after it was killed."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

import peers
from kubevouch.cli.main import run
from processes import Up, kubevouch

PAGE = (peers.ROOT / "docs" / "howto" / "ledger.md").read_text()
# Typed against a real kube-apiserver: tests/real/test_cluster_ledger.py.
_IN_CLUSTER = PAGE.partition("## In the cluster\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^    (kubevouch .+)$", PAGE.replace(_IN_CLUSTER, ""), re.MULTILINE)


class Reader:
    """Types what the page says, in a folder of its own, with the data directory of a cluster."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.serial = ""

    def __call__(self, command: str, code: int = 0) -> str:
        command, _, into = command.partition(" > ")
        _, *arguments = shlex.split(command.replace("5A:3F:…", self.serial))
        files = {"kept.checkpoint", "kept.key", "worker-1.tlog-proof", "growth", "worker-1.receipt"}
        arguments = [
            str(self.folder / each) if each in files or each.startswith("worker-1/") else each for each in arguments
        ]
        if "--proof" not in arguments and arguments[0] != "verify":
            arguments += ["--data-dir", str(self.folder / "cluster")]
        assert run(arguments) == code, (command, self._capsys.readouterr())
        printed = self._capsys.readouterr().out
        if into:
            (self.folder / into).write_text(printed)
        if into == "kept.json":
            (self.folder / "kept.key").write_text(json.loads(printed)["key"])
        return printed


def test_the_commands_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) == 19
    # What the page has jq do, which need not be here, the reader does himself.
    assert "    jq -r .key kept.json > kept.key\n" in PAGE
    reader = Reader(tmp_path, capsys)
    with Up(tmp_path) as up:
        printed = kubevouch("token", "create", "--print-join-command", cwd=tmp_path, KUBECONFIG="cluster/admin.conf")
        _, *arguments = shlex.split(printed.stdout)
        assert kubevouch(*arguments, "--node-name", "worker-1", "--rootfs", "worker-1", cwd=tmp_path).code == 0
        (entry,) = json.loads(reader("kubevouch issued list -o json"))["entries"]
        assert entry["subject"] == "system:node:worker-1" and entry["requester"].startswith("system:bootstrap:")
        reader.serial = entry["serial"].upper()
        shown = {command: reader(command) for command in COMMANDS}
        assert [line.split()[0] for line in shown["kubevouch issued show 5A:3F:…"].splitlines() if line][
            1
        ] == "approved"
        assert shown["kubevouch audit verify --data-dir cluster"].startswith("whole: ")
        proven = next(printed for command, printed in shown.items() if command.startswith("kubevouch verify receipt"))
        assert "system:node:worker-1" in proven.splitlines()[0] and "kubelet-client" in proven
        up.end(signal.SIGKILL)
    # What SQLite has left in its log is read, too.
    assert reader("kubevouch audit verify").startswith("whole: ")
    assert json.loads(reader("kubevouch issued list -o json"))["entries"] == [entry]
