"""What is done to a system while clients work. Each fault begins, lasts for a while and is undone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from torture.proxy import Link
from torture.recorder import Recorder
from torture.systems import Member, Process, System

_PIECE = 4096
_STEP_SECONDS = 5.0
_STEPS = 12

Nemesis = Callable[["Stage"], Awaitable[None]]


@dataclass
class Stage:
    """Where faults happen. ``seconds``: how long one lasts, at most."""

    system: System
    recorder: Recorder
    chance: random.Random
    seconds: float = 2.0
    steps: int = 0
    """Processes that were killed at a certain write."""

    async def last(self) -> None:
        await asyncio.sleep(self.seconds * self.chance.uniform(0.2, 1.0))

    def process(self) -> Process | Member | None:
        running = [each for each in self.system.processes if each.is_running]
        return self.chance.choice(running) if running else None

    def links(self) -> tuple[str, list[Link]]:
        return self.chance.choice(list(self.system.groups.items()))


async def kill(stage: Stage) -> None:
    """kill -9 of a process, which comes back at once or after a while."""
    process = stage.process()
    if process is None:
        return
    stage.recorder.fault(f"kill -9 {process.name}")
    await process.end(signal.SIGKILL)
    if stage.chance.random() < 0.5:
        await stage.last()
    await process.start()
    stage.recorder.fault(f"{process.name} is back")


async def kill_child(stage: Stage) -> None:
    """kill -9 of a process that a server has made: the server makes another one, or ends and is started again."""
    process, child = _child(stage)
    stage.recorder.fault(f"kill -9 {child} of {process.name}")
    children = process.children()
    os.kill(child, signal.SIGKILL)
    await stage.last()
    assert process.process is not None
    if process.process.returncode is not None:
        await process.gone(children)
        stage.recorder.fault(f"{process.name} ended, too")
        await process.start()


async def stop_child(stage: Stage) -> None:
    """SIGSTOP of a process that a server has made, and SIGCONT."""
    process, child = _child(stage)
    stage.recorder.fault(f"SIGSTOP {child} of {process.name}")
    os.kill(child, signal.SIGSTOP)
    await stage.last()
    os.kill(child, signal.SIGCONT)
    stage.recorder.fault(f"SIGCONT {child} of {process.name}")


def _child(stage: Stage) -> tuple[Process, int]:
    processes = [each for each in stage.system.processes if isinstance(each, Process)]
    process = stage.chance.choice([each for each in processes if each.children()])
    return process, stage.chance.choice(process.children())


async def step(stage: Stage) -> None:
    """kill -9 right before or right after a write of a server's controllers: each time of another one."""
    processes = [each for each in stage.system.processes if isinstance(each, Process) and "mortal" in each.planted]
    process = stage.chance.choice([each for each in processes if each.is_running])
    number, when = stage.steps // 2 % _STEPS, ("before", "after")[stage.steps % 2]
    stage.steps += 1
    process.arming.write_text(f"{number} {when}")
    said = len(process.said)
    stage.recorder.fault(f"kill -9 {process.name} {when} its write {number}")
    process.send(signal.SIGUSR2)
    assert process.process is not None
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.process.wait(), _STEP_SECONDS)
    await process.end()
    died = [line for line in process.said[said:].splitlines() if line.startswith("died ")]
    stage.recorder.fault(f"{process.name} {died[0]}" if died else f"{process.name} did not write so much")
    await process.start()


async def terminate(stage: Stage) -> None:
    """SIGTERM of a process, which comes back."""
    process = stage.process()
    if process is None:
        return
    stage.recorder.fault(f"SIGTERM {process.name}")
    await process.end(signal.SIGTERM)
    await process.start()
    stage.recorder.fault(f"{process.name} is back")


async def stop(stage: Stage) -> None:
    """SIGSTOP of a process, and SIGCONT."""
    process = stage.process()
    if process is None:
        return
    stage.recorder.fault(f"SIGSTOP {process.name}")
    process.send(signal.SIGSTOP)
    await stage.last()
    process.send(signal.SIGCONT)
    stage.recorder.fault(f"SIGCONT {process.name}")


async def cut(stage: Stage) -> None:
    """Reset every connection of a link."""
    name, links = stage.links()
    stage.recorder.fault(f"cut {name}")
    for link in links:
        link.cut()


async def partition(stage: Stage) -> None:
    """Nothing gets through some links, and nobody is told; then it does, or the connections are reset."""
    name, links = stage.links()
    stage.recorder.fault(f"hold {name}")
    for link in links:
        link.hold()
    await stage.last()
    lost = stage.chance.random() < 0.5
    for link in links:
        if lost:
            link.cut()
        link.release()
    stage.recorder.fault(f"release {name}")


async def lose_answers(stage: Stage) -> None:
    """What is asked arrives and what is answered does not; the connections are reset then."""
    name, links = stage.links()
    stage.recorder.fault(f"hold answers {name}")
    for link in links:
        link.hold_answers()
    await stage.last()
    for link in links:
        link.cut()
        link.release()
    stage.recorder.fault(f"release {name}")


async def half_open(stage: Stage) -> None:
    """The server's end of every connection of a link is gone, and the client does not know."""
    name, links = stage.links()
    stage.recorder.fault(f"leave half open {name}")
    for link in links:
        link.leave_half_open()


async def flood(stage: Stage) -> None:
    """Hundreds of connections that say nothing."""
    link = stage.chance.choice(stage.system.edges)
    stage.recorder.fault(f"flood {link.name}")
    opened = await asyncio.gather(
        *(asyncio.open_connection("127.0.0.1", link.port) for _ in range(300)), return_exceptions=True
    )
    await stage.last()
    for each in opened:
        if isinstance(each, tuple):
            each[1].transport.abort()
    stage.recorder.fault(f"the flood of {link.name} is over")


def _inject(what: str, why: str) -> Nemesis:
    async def inject(stage: Stage) -> None:
        process = stage.process()
        if process is None:
            return
        stage.recorder.fault(f"{why} {process.name}")
        strace = await asyncio.create_subprocess_exec(
            "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
            "-e", f"inject=fsync,fdatasync:{what}", "-p", str(process.pid),
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await stage.last()
        if strace.returncode is None:
            strace.send_signal(signal.SIGINT)
        await strace.wait()
        stage.recorder.fault(f"fsync of {process.name} is as it was")
        if not process.is_running:
            await process.start()
            stage.recorder.fault(f"{process.name} had ended and is back")

    return inject


slow_fsync = _inject("delay_enter=200000", "slow fsync")
failing_fsync = _inject("error=EIO", "failing fsync")


async def compact(stage: Stage) -> None:
    """etcd forgets everything but the newest state."""
    assert stage.system.etcd is not None  # else it is not offered
    stage.recorder.fault("compact etcd")
    try:
        status = await asyncio.to_thread(stage.system.etcd.ctl, "endpoint", "status", "-w", "json")
        newest = max(each["Status"]["header"]["revision"] for each in json.loads(status))
        await asyncio.to_thread(stage.system.etcd.ctl, "compact", str(newest))
    except subprocess.CalledProcessError as err:  # a member that is away, or somebody else was first
        stage.recorder.fault(f"etcd did not compact: {err.stderr.decode().strip()[-200:]}")


async def wrong_clock(stage: Stage) -> None:
    """The wall clock steps, and steps back."""
    assert stage.system.clock is not None  # else it is not offered
    offset = stage.chance.choice(("-10m", "-30s", "+30s", "+10m"))
    stage.recorder.fault(f"clock {offset}")
    stage.system.clock.set(offset)
    await stage.last()
    stage.system.clock.set("+0")
    stage.recorder.fault("clock right")


async def full_disk(stage: Stage) -> None:
    """No room for a byte more; then there is again."""
    assert stage.system.disk is not None  # else it is not offered
    stage.recorder.fault("disk full")
    filler = stage.system.disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(_PIECE)):
            pass
    await stage.last()
    filler.unlink()
    stage.recorder.fault("disk has room")


NEMESES: dict[str, Nemesis] = {
    "kill": kill,
    "kill-child": kill_child,
    "stop-child": stop_child,
    "step": step,
    "terminate": terminate,
    "stop": stop,
    "cut": cut,
    "partition": partition,
    "lose-answers": lose_answers,
    "half-open": half_open,
    "flood": flood,
    "slow-fsync": slow_fsync,
    "failing-fsync": failing_fsync,
    "compact": compact,
    "wrong-clock": wrong_clock,
    "full-disk": full_disk,
}

OF_LINKS = ("cut", "partition", "lose-answers", "half-open")


def possible(system: System) -> list[str]:
    """Those that this machine and this system have the means for."""
    has_children = any(isinstance(each, Process) and each.children() for each in system.processes)
    needs = {
        "kill-child": has_children,
        "stop-child": has_children,
        "step": any(isinstance(each, Process) and "mortal" in each.planted for each in system.processes),
        "slow-fsync": shutil.which("strace") is not None and system.clock is None,
        "failing-fsync": shutil.which("strace") is not None and system.clock is None,
        "compact": system.etcd is not None,
        "wrong-clock": system.clock is not None,
        "full-disk": system.disk is not None,
    }
    return [name for name in NEMESES if needs.get(name, True)]
