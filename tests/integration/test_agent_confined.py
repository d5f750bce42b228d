"""Agent and server as units and a container confine them, as far as that can be had without either of them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kubevouch.cli.main import COMMANDS
from peers import ROOT
from processes import KUBEVOUCH, PATIENCE_SECONDS, Ended, Up, environment, run
from running_agent import READY_LINE, RunningAgent

UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
CONTAINERFILE = ROOT / "deploy/container/Containerfile"
DEBIAN = ROOT / ".peers/debian"
# In tenths, as systemd-analyze has its thresholds: 0 is locked up, 100 without any confinement.
MOST_EXPOSED = 20
UNIT_OF_SERVER = ROOT / "deploy/systemd/kubevouch.service"


def _systemd_analyze(folder: Path, *arguments: str) -> Ended:
    program = DEBIAN / "usr/bin/systemd-analyze"
    if not program.exists():
        program = DEBIAN / "bin/systemd-analyze"
    if not program.exists():
        pytest.fail("systemd-analyze is not in .peers; run: make peers", pytrace=False)
    libraries = {str(path.parent) for path in DEBIAN.rglob("lib*.so*")}
    return run(
        program, *arguments, cwd=folder,
        LD_LIBRARY_PATH=":".join(sorted(libraries)),
        SYSTEMD_UNIT_PATH=f"{folder}:{DEBIAN}/lib/systemd/system:{DEBIAN}/usr/lib/systemd/system",
    )  # fmt: skip


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_the_unit(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert "ExecStart=/usr/local/bin/kubevouch" in text
    unit = tmp_path / path.name
    # Where it is installed here.
    unit.write_text(text.replace("/usr/local/bin/kubevouch", str(Path(sys.executable).with_name("kubevouch"))))
    verified = _systemd_analyze(tmp_path, "verify", "--man=no", "--recursive-errors=no", str(unit))
    assert (verified.code, verified.stdout, verified.stderr) == (0, "", "")
    # It would have found something.
    unit.write_text(text.replace("ProtectSystem=strict", "ProtectSystem=strictly"))
    assert "strictly" in _systemd_analyze(tmp_path, "verify", "--man=no", str(unit)).stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_leaves_little_exposed(path: Path, tmp_path: Path) -> None:
    shown = _systemd_analyze(
        tmp_path, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", str(path)
    )
    assert shown.code == 0, shown.stdout[-400:]


def test_on_a_read_only_root_without_capabilities(tmp_path: Path) -> None:
    """As in a container with volumes for the node's two folders and the socket, and nothing else to write."""
    if os.geteuid() != 0:
        pytest.fail("only root may make a mount namespace of its own here", pytrace=False)
    node, run_folder = tmp_path / "node", tmp_path / "run"
    run_folder.mkdir()
    with Up(tmp_path) as up:
        assert up.join("--rootfs", str(node)).code == 0
        writable = (node / "etc/kubernetes", node / "var/lib/kubelet", run_folder)
        script = "".join(f"mount --bind {path} {path} && " for path in writable)
        script += f"mount -o remount,bind,ro / && ! touch {tmp_path}/here 2>/dev/null && "
        confined = ("unshare", "--mount", "sh", "-ec", f'{script} exec setpriv --bounding-set=-all "$@"', "confined")
        with RunningAgent(run_folder, node, through=confined) as agent:
            agent.until(READY_LINE)
            assert agent.command("rotate").code == 0
            agent.until("certificate in use")
            assert agent.command("status").code == 0
            assert agent.end() == 0


def test_the_server_writes_nothing_but_its_state_and_tells_systemd(tmp_path: Path) -> None:
    """By the unit's own command line, on a read-only root without capabilities."""
    if os.geteuid() != 0:
        pytest.fail("only root may make a mount namespace of its own here", pytrace=False)
    state = tmp_path / "kubevouch"
    state.mkdir(0o700)
    started = re.search(r"^ExecStart=\S+ (.*)$", UNIT_OF_SERVER.read_text(), re.MULTILINE)
    assert started is not None
    arguments = started[1].replace("%S", str(tmp_path)).split()
    script = f"mount --bind {state} {state} && mount -o remount,bind,ro / && ! touch {tmp_path}/here 2>/dev/null && "
    confined = ("unshare", "--mount", "sh", "-ec", f'{script} exec setpriv --bounding-set=-all "$@"', "confined")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_SECONDS)
        process = subprocess.Popen(
            [*confined, *KUBEVOUCH, *arguments, "--secure-port", "0"],
            cwd="/", env=environment(NOTIFY_SOCKET=str(tmp_path / "notify")), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert manager.recv(4096).startswith(b"READY=1\nSTATUS=ready at https://")
            process.terminate()
            assert manager.recv(4096) == b"STOPPING=1"
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()


def test_the_image_is_made_of_what_is_here_and_starts_a_command() -> None:
    """Building it takes a base image from elsewhere, so that no test does."""
    lines = [line.split() for line in CONTAINERFILE.read_text().splitlines()]
    copied = [each for line in lines if line[:1] == ["COPY"] and not line[1].startswith("--") for each in line[1:-1]]
    assert copied and all((ROOT / each).exists() for each in copied)
    started = [json.loads(" ".join(line[1:])) for line in lines if line[:1] in (["ENTRYPOINT"], ["CMD"])]
    assert started[0] == ["kubevouch"] and started[1][0] in COMMANDS
    assert ["USER", "65532:65532"] in lines


# With loopback up, which takes SIOCSIFFLAGS and IFF_UP (linux/sockios.h, linux/if.h): iproute2 may not be installed.
_ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket() as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", sys.argv[1]])
"""


def test_without_a_route_to_the_outside() -> None:
    """A cluster, a join and a rotation in a network namespace that has nothing but its loopback interface."""
    if os.geteuid() != 0:
        pytest.fail("only root may make a network namespace of its own here", pytrace=False)
    test = f"{Path(__file__).with_name('test_agent.py')}::test_a_joined_machine_is_kept_joined"
    done = run("unshare", "--net", sys.executable, "-c", _ALONE, test, cwd=ROOT)
    assert done.code == 0, done.stdout[-2000:] + done.stderr[-500:]
