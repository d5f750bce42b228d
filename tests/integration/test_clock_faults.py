"""Machines whose clock is wrong (libfaketime): real processes, told what is wrong, and well once the clock is."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import aio
from faketime import WrongClock, wrong_clock
from join_world import TOKEN, JoinWorld, join_world
from kubevouch.agent.interface import Step
from kubevouch.config import kubeconfig
from processes import Ended, Up, kubevouch
from running_agent import READY_LINE, RunningAgent, bootstrap_kubeconfig

JOINER = Path(__file__).with_name("joiner.py")
RIGHT = "+0"


@dataclass
class Machines:
    """A cluster whose clock is right, and names for machines."""

    up: Up
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def machine(self) -> Path:
        return self.up.folder / f"worker-{next(self.numbers)}"

    def join(self, machine: Path, clock: WrongClock) -> Ended:
        _, token, pin = self.up.join_arguments
        return kubevouch(
            "join", f"127.0.0.1:{self.up.port}", "--token", token, "--discovery-token-ca-cert-hash", pin,
            "--node-name", machine.name, "--rootfs", machine, cwd=self.up.folder, **clock.environment,
        )  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with Up(tmp_path_factory.mktemp("cluster")) as up:
        yield Machines(up)


@pytest.mark.parametrize(
    ("offset", "says"),
    [
        ("-20m", "m behind the server's"),
        ("-10y", "y behind the server's"),
        ("+2y", "y ahead of the server's"),
    ],
)
def test_a_join_says_how_wrong_the_clock_is(tmp_path: Path, machines: Machines, offset: str, says: str) -> None:
    machine, clock = machines.machine(), wrong_clock(tmp_path, offset)
    refused = machines.join(machine, clock)
    assert refused.code == 5
    assert refused.stderr.splitlines()[-1].startswith("hint: this machine's clock is ")
    assert refused.stderr.splitlines()[-1].endswith(f"{says}; set it")
    assert not list(machine.rglob("*.conf"))
    clock.set(RIGHT)
    assert machines.join(machine, clock).code == 0


@pytest.mark.parametrize(("offset", "warned"), [("-3m", False), ("+2d", True)])
def test_a_join_bears_what_no_certificate_forbids(
    tmp_path: Path, machines: Machines, offset: str, warned: bool
) -> None:
    joined = machines.join(machines.machine(), wrong_clock(tmp_path, offset))
    assert joined.code == 0
    assert ("this machine's clock is" in joined.stderr) is warned


# ------------------------------------------------------------------ a clock that jumps under a join


async def _run(world: JoinWorld, root: Path, clock: WrongClock, last: str = "") -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(JOINER), world.endpoint, TOKEN.text, world.pin, str(root), last,
        env={**os.environ, **clock.environment}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()


@pytest.mark.parametrize("step", [Step.CA_PINNED, Step.KEY_MADE, Step.REQUESTED])
@pytest.mark.parametrize("offset", ["-20m", "+20y"])
def test_a_clock_that_jumps_under_a_join(tmp_path: Path, step: Step, offset: str) -> None:
    root, clock = tmp_path / "node", wrong_clock(tmp_path, RIGHT)

    async def scenario() -> None:
        async with join_world(tmp_path) as world, world.clerk_at_work():
            code, said = await _run(world, root, clock, f"jump {offset} {step.value}")
            assert code == 1 and "clock" in said, said
            assert not (root / "etc/kubernetes/kubelet.conf").exists()
            clock.set(RIGHT)
            assert await _run(world, root, clock) == (0, "")

    aio.run(scenario(), blocked_seconds=10.0)


# ------------------------------------------------------------------ the agent

BEHIND, AHEAD = "the clock to be set", "set this machine's clock"


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(("offset", "says"), [("-20m", BEHIND), ("-10y", BEHIND), ("+2y", AHEAD)])
def test_an_agent_that_boots_with_a_wrong_clock(
    tmp_path: Path, machines: Machines, offset: str, says: str, joined: bool
) -> None:
    machine, clock = machines.machine(), wrong_clock(tmp_path, RIGHT)
    if joined:
        assert machines.join(machine, clock).code == 0
    else:
        token = machines.up.join_arguments[1]
        bootstrap_kubeconfig(machines.up.folder, machine, kubeconfig.User(token=token))
    clock.set(offset)
    with _agent(tmp_path, machine, clock) as agent:
        agent.until("waiting" if says is BEHIND else "the attempt failed")
        assert says in agent.command("status").stdout
        assert _pairs(machine) == joined
        clock.set(RIGHT)
        assert agent.command("rotate").code == 0
        agent.until("certificate in use")
        assert agent.command("status").code == 0
    assert _pairs(machine) > joined


@pytest.mark.parametrize(("offset", "says"), [("-10y", BEHIND), ("+20y", AHEAD)])
def test_a_clock_that_jumps_under_an_agent(tmp_path: Path, machines: Machines, offset: str, says: str) -> None:
    machine, clock = machines.machine(), wrong_clock(tmp_path, RIGHT)
    assert machines.join(machine, clock).code == 0
    with _agent(tmp_path, machine, clock) as agent:
        agent.until(READY_LINE)
        clock.set(offset)
        agent.command("rotate")
        agent.until("the clock was set")
        agent.until("waiting" if says is BEHIND else "the attempt failed")
        assert says in agent.command("status").stdout
        assert _pairs(machine) == 1
        clock.set(RIGHT)
        agent.command("rotate")
        agent.until("certificate in use")
        assert agent.command("status").code == 0


def _agent(folder: Path, machine: Path, clock: WrongClock) -> RunningAgent:
    return RunningAgent(folder, machine, ("--node-name", machine.name), tuple(clock.environment.items()))


def _pairs(machine: Path) -> int:
    return len(list((machine / "var/lib/kubelet/pki").glob("kubelet-client-2*.pem")))
