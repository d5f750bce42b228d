"""Machines on which something is wrong: real processes, a real disk, a message that says what, and a way back.

Where each fault has its test, by the issue's words:

=============================================  =====================================================================
clock wrong by minutes, days, years            ``test_clock_faults``
disk full, read-only                           here, ``unit/agent/test_certificate_manager``
disk slow in the middle of a rotation          here (a process that stands still at each change of a file)
killed in the middle of a rotation, a join     ``test_agent_kill``, ``test_join_kill``
two programs and a reader on one folder        ``test_agent_kill``, here
file truncated, swapped, wrong mode, a         ``unit/agent/test_certificate_manager`` (``BREAKAGES``),
regular file in place of the link              ``unit/doctor/test_node``
wrong owner                                    here
token expiring between discovery and request   here
request denied, failed, deleted, re-created    ``unit/agent/test_certificate_manager``, ``unit/agent/test_bootstrap``
approved but never signed                      ``unit/agent/test_certificate_manager``
API server gone for a week                     ``unit/agent/test_certificate_manager``, ``test_agent_fleet`` (an hour)
a different cluster at the same address        ``unit/agent/test_certificate_manager``, ``unit/agent/test_node_access``,
                                               ``unit/agent/test_discovery``
two machines with one name                     here
a request pre-created under our name           ``unit/agent/test_bootstrap``
a plug-in for the first credential that fails  ``test_agent_exec``
=============================================  =====================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aio
from file_systems import memory_disk
from join_world import TOKEN, Told, join_world
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.interface import RequestDeniedError, Step
from kubevouch.api import catalog
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases import bootstrap_token
from kubevouch.phases.join import KUBELET_CONF, JoinOptions, join
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import SystemClock
from processes import Up, kubevouch
from running_agent import READY_LINE, RunningAgent

ROTATOR = Path(__file__).with_name("rotator.py")
NOBODY = 65534
# Root that may not pass over modes and owners, as the unit in deploy/systemd runs it.
WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all")
PKI = Path("var/lib/kubelet/pki")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def _joined(up: Up, root: Path, name: str) -> Path:
    done = up.join("--rootfs", str(root), name=name)
    assert done.code == 0, done.stderr
    return root


def _rotates(agent: RunningAgent, *, after: int) -> None:
    """Once more, by hand, after so many attempts that came to nothing."""
    assert len(list(agent.store.current_path.parent.glob("kubelet-client-2*.pem"))) == after + 1
    assert agent.command("rotate").code == 0
    agent.until("certificate in use")
    shown = agent.command("status")
    assert shown.code == 0 and "last error" not in shown.stdout


# ------------------------------------------------------------------ the disk


@pytest.mark.parametrize(
    ("fault", "says", "hint"),
    [("full", "No space left on device", "make room"), ("ro", "Read-only file system", "mount it")],
)
def test_a_disk_that_cannot_be_written(tmp_path: Path, up: Up, fault: str, says: str, hint: str) -> None:
    if os.geteuid() != 0:
        pytest.fail("only root may mount a disk; unit/agent/test_certificate_manager has its errors", pytrace=False)
    node = _joined(up, tmp_path / "node", f"disk-{fault}")
    folder, aside = node / PKI, tmp_path / "aside"
    folder.rename(aside)
    folder.mkdir()
    with memory_disk(folder, "size=64k") as mount_again:
        shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        with RunningAgent(tmp_path, node) as agent:
            agent.until(READY_LINE)
            if fault == "ro":
                mount_again("ro,size=64k")
            else:
                _fill(folder / "filling")
            agent.command("rotate")
            agent.until("the attempt failed")
            shown = agent.command("status").stdout
            assert f"{node}" in shown and says in shown and hint in shown
            # What there was goes on being good.
            assert "is well" in shown
            if fault == "ro":
                mount_again("size=64k")
            else:
                (folder / "filling").unlink()
            _rotates(agent, after=0)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass


@pytest.mark.parametrize("what", ["the folder", ".kubelet-client.lock", "kubelet-client.key.tmp"])
def test_files_of_another_user(tmp_path: Path, up: Up, what: str) -> None:
    if os.geteuid() != 0:
        pytest.fail("only root may give a file away", pytrace=False)
    node = _joined(up, tmp_path / "node", f"owner-{len(what)}")
    path = node / PKI if what == "the folder" else node / PKI / what
    if not path.exists():
        path.touch(mode=0o600)
    os.chown(path, NOBODY, NOBODY)
    with RunningAgent(tmp_path, node, through=WITHOUT_CAPABILITIES) as agent:
        agent.until(READY_LINE)
        agent.command("rotate")
        agent.until("the attempt failed")
        shown = agent.command("status").stdout
        assert "Permission denied" in shown and f"{path} belongs to user {NOBODY}" in shown
        assert f"chown 0 {path}" in shown
        os.chown(path, 0, 0)
        _rotates(agent, after=0)


def test_a_pair_of_another_user(tmp_path: Path, up: Up) -> None:
    """A pair that is there and cannot be read is no reason to begin anew: the agent ends, and says why."""
    if os.geteuid() != 0:
        pytest.fail("only root may give a file away", pytrace=False)
    node = _joined(up, tmp_path / "node", "owner-of-pair")
    pair = (node / PKI / "kubelet-client-current.pem").resolve()
    os.chown(pair, NOBODY, NOBODY)
    found = kubevouch("doctor", "node", "--rootfs", node, "--offline", cwd=tmp_path)
    assert found.code == 1 and "owner-differs" in found.stdout and "chown 0" in found.stdout
    with RunningAgent(tmp_path, node, through=WITHOUT_CAPABILITIES) as agent:
        code, said = agent.ended()
        assert code == 1 and "kubelet-client-current.pem: permission denied" in said and "hint:" in said
    os.chown(pair, 0, 0)
    with RunningAgent(tmp_path, node, through=WITHOUT_CAPABILITIES) as agent:
        agent.until(READY_LINE)
        _rotates(agent, after=0)


# A process for each change of a file, some ten, and another one beside each.
def test_a_disk_that_stands_still_in_the_middle_of_a_rotation(tmp_path: Path) -> None:
    """At each change of a file the process stops for as long as it takes others to look and to rotate themselves."""
    root = tmp_path / "node"

    async def scenario() -> int:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            await join(JoinOptions(world.discovery(), "worker-1", root, 120.0), SystemClock(), Told())
            store = CertificateStore(root / PKI)
            number = 0
            while True:
                number += 1
                process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's would take the news of its end away
                    [sys.executable, str(ROTATOR), str(root), f"stop {number}"]
                )
                if not await asyncio.to_thread(_stops, process.pid):
                    assert process.wait() == 0
                    break
                # A reader sees a whole pair, and the credential works.
                assert store.current() is not None
                await _verify_credential(root)
                process.send_signal(signal.SIGCONT)
                assert await asyncio.to_thread(process.wait) == 0
                await _verify_credential(root)
            return number

    assert aio.run(scenario(), blocked_seconds=10.0) > 8


def _stops(pid: int) -> bool:
    """Waits until the process stops or ends; whether it has stopped."""
    found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    return found.si_code == os.CLD_STOPPED


async def _verify_credential(root: Path) -> None:
    async with client_from_kubeconfig(root / KUBELET_CONF, component="test") as client:
        await client.list(catalog.RUNTIME_CLASSES)


# ------------------------------------------------------------------ the token and the name


def test_a_token_that_ends_between_discovery_and_request(tmp_path: Path) -> None:
    root, other = tmp_path / "node", parse_token("q9k2zq.w7e1r5t3y9u8i0oa")

    async def scenario() -> None:
        clock = FakeClock(SystemClock().now())
        async with join_world(tmp_path, clock) as world:
            options = JoinOptions(world.discovery(), "worker-1", root, 120.0)
            with pytest.raises(RequestDeniedError) as refused:
                await join(options, SystemClock(), _Late(clock))
            assert "does not accept the token" in str(refused.value)
            assert "has expired" in refused.value.hint and "kubevouch token create" in refused.value.hint
            left = [each.read_bytes() for each in root.rglob("*") if each.is_file()]
            assert not (root / KUBELET_CONF).exists()
            assert not any(TOKEN.token_secret.encode() in content for content in left)
            # With another token the same machine goes on, with its key.
            await bootstrap_token.create(world.server.client, bootstrap_token.plan(other, now=clock.now()))
            await world.sign_cluster_info(other)
            told = Told()
            async with world.clerk_at_work():
                await join(JoinOptions(world.discovery(other.text), "worker-1", root, 120.0), clock, told)
            assert "found in" in told.details[told.steps.index(Step.KEY_MADE)]
            await _verify_credential(root)

    aio.run(scenario())


class _Late(Told):
    """Days pass on the server once the key is made."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def done(self, step: Step, detail: str = "") -> None:
        super().done(step, detail)
        if step is Step.KEY_MADE:
            self._clock.advance(4 * 86400)


def test_two_machines_with_one_name(tmp_path: Path, up: Up) -> None:
    admin = up.folder / "cluster/admin.conf"
    first = _joined(up, tmp_path / "first", "twin")
    with RunningAgent(tmp_path, first) as agent:
        agent.until(READY_LINE)
        denied = up.join("--rootfs", str(tmp_path / "denied"), name="twin")
        assert denied.code == 6 and "reason: NodeNameTaken" in denied.stderr
        # Somebody made a token for that name, as for a machine that was installed anew; it still says so.
        made = kubevouch("token", "create", "--node-name", "twin", "--kubeconfig", admin, cwd=tmp_path)
        assert made.code == 0, made
        second = kubevouch(
            "join", f"127.0.0.1:{up.port}", "--token", made.stdout.strip(),
            "--discovery-token-ca-cert-hash", up.printed_join[3], "--node-name", "twin", "--rootfs", "./second",
            cwd=tmp_path,
        )  # fmt: skip
        assert second.code == 0, second
        assert "another machine, with another key, has joined under this node name" in second.stderr
        _rotates(agent, after=0)
        found = kubevouch("doctor", "cluster", "--kubeconfig", admin, cwd=tmp_path)
        assert found.code == 1 and "node-name-shared" in found.stdout
        assert "2 machines have become system:node:twin" in found.stdout
        assert "another machine" not in up.join("--rootfs", str(tmp_path / "third"), name="single").stderr
