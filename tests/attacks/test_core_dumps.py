"""No process of ours leaves a core file: keys and tokens are in its memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kubevouch.cli.main import COMMANDS
from processes import Up, environment

PROBE = """
import resource, sys, click
from kubevouch.cli import main
def probe(): print(resource.getrlimit(resource.RLIMIT_CORE)[0])
main.LazyGroup.get_command = lambda self, ctx, name: click.Command(name, callback=probe)
main.main()
"""


def core_limit(pid: int) -> str:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max core file size")).split()[4]


def unlimited() -> None:
    """As systemd starts a service: up to the hard limit, which is often infinite."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def soft_limit(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], preexec_fn=unlimited, env=environment(), capture_output=True,
        text=True, check=True, timeout=240,
    )  # fmt: skip
    return int(done.stdout)


def test_a_running_server(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    unlimited()
    try:
        with Up(tmp_path) as up:
            assert core_limit(up.pid) == "0"
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("name", ["up", "agent", "join", "credential"])
def test_every_command_unless_it_is_told_to(name: str) -> None:
    assert name in COMMANDS
    assert soft_limit(name) == 0
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != 0:
        assert soft_limit("--core-dumps", name) == hard
