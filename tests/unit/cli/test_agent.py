from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from kubevouch.agent import options
from kubevouch.cli import agent as module
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import COMMANDS, run
from kubevouch.machinery.text import gotext

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "kubevouch-agent.service"


def test_the_flags_say_what_the_agent_takes() -> None:
    defaults: dict[str, Any] = {each.name or "": each.default for each in module.agent.params}
    assert defaults["kubeconfig"] == options.KUBECONFIG
    assert defaults["cert_dir"] == options.CERT_DIR
    assert defaults["socket_path"] == options.SOCKET
    assert options.local_address(defaults["healthz_address"]) == ("127.0.0.1", options.HEALTHZ_PORT)
    assert gotext.parse_duration(defaults["refresh_interval"]).total_seconds() == options.REFRESH_SECONDS


def test_the_unit_starts_the_command() -> None:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines)
    program, command, *flags = shlex.split(settings["ExecStart"])
    assert Path(program).name == "kubevouch" and command in COMMANDS and not flags
    assert settings["Type"] == "notify"
    # The socket's folder and the unit's are one.
    assert options.SOCKET.parent == Path("/run") / settings["RuntimeDirectory"]
    written = [line.split("=", 1)[1].lstrip("-") for line in lines if line.startswith("ReadWritePaths=")]
    for path in (options.KUBECONFIG, options.CERT_DIR):
        assert any(path.is_relative_to(each) for each in written)


@pytest.mark.parametrize("command", [["status"], ["status", "-o", "yaml"], ["rotate"], ["rotate", "client"]])
def test_without_an_agent(tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert run(["agent", *command, "--socket", str(tmp_path / "none")]) == ExitCode.FAILED
    said = capfd.readouterr().err
    assert "error: no agent answers" in said and "hint:" in said


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--key-algorithm", "DSA"], "unknown key algorithm"),
        (["--healthz-address", "x"], "expected ADDRESS:PORT"),
        (["--node-name", "a_b"], "cannot be used"),
        (["--discover", "a:6443"], "needs a token"),
        (["--refresh-interval", "9s"], "10 s at least"),
        (["--serve-self-signed"], "no effect without --serving"),
        (["--key-file", "/nowhere/node.key"], "/nowhere/node.key cannot be read"),
        ([], "neither"),
    ],
)
def test_what_cannot_be_meant(tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str], why: str) -> None:
    paths = ["--kubeconfig", "k", "--bootstrap-kubeconfig", "b", "--cert-dir", "pki", "--socket", "s"]
    inside = [str(tmp_path / each) if not each.startswith("--") else each for each in paths]
    assert run(["agent", *inside, *flags]) == ExitCode.INVALID
    assert why in capfd.readouterr().err
