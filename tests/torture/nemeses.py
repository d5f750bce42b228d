"""What is done to a system while clients work. Each fault begins, lasts for a while and is undone."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from torture.recorder import Recorder
from torture.systems import Process, System

Nemesis = Callable[["Stage"], Awaitable[None]]


@dataclass
class Stage:
    """Where faults happen. ``seconds``: how long one lasts, at most."""

    system: System
    recorder: Recorder
    chance: random.Random
    seconds: float = 2.0

    async def last(self) -> None:
        await asyncio.sleep(self.seconds * self.chance.uniform(0.2, 1.0))

    def process(self) -> Process | None:
        running = [each for each in self.system.processes if each.is_running]
        return self.chance.choice(running) if running else None


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
    link = stage.chance.choice(stage.system.links)
    stage.recorder.fault(f"cut {link.name}")
    link.cut()


async def partition(stage: Stage) -> None:
    """Nothing gets through a link, and nobody is told; then it does, or the connections are reset."""
    link = stage.chance.choice(stage.system.links)
    stage.recorder.fault(f"hold {link.name}")
    link.hold()
    await stage.last()
    if stage.chance.random() < 0.5:
        link.cut()
    link.release()
    stage.recorder.fault(f"release {link.name}")


async def lose_answers(stage: Stage) -> None:
    """What is asked arrives and what is answered does not; the connections are reset then."""
    link = stage.chance.choice(stage.system.links)
    stage.recorder.fault(f"hold answers {link.name}")
    link.hold_answers()
    await stage.last()
    link.cut()
    link.release()
    stage.recorder.fault(f"release {link.name}")


async def half_open(stage: Stage) -> None:
    """The server's end of every connection of a link is gone, and the client does not know."""
    link = stage.chance.choice(stage.system.links)
    stage.recorder.fault(f"leave half open {link.name}")
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

    return inject


slow_fsync = _inject("delay_enter=200000", "slow fsync")
failing_fsync = _inject("error=EIO", "failing fsync")


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
    stage.system.disk("size=4k")
    await stage.last()
    stage.system.disk("size=512m")
    stage.recorder.fault("disk has room")


NEMESES: dict[str, Nemesis] = {
    "kill": kill,
    "terminate": terminate,
    "stop": stop,
    "cut": cut,
    "partition": partition,
    "lose-answers": lose_answers,
    "half-open": half_open,
    "flood": flood,
    "slow-fsync": slow_fsync,
    "failing-fsync": failing_fsync,
    "wrong-clock": wrong_clock,
    "full-disk": full_disk,
}


def possible(system: System) -> list[str]:
    """Those that this machine and this system have the means for."""
    needs = {
        "slow-fsync": shutil.which("strace") is not None and system.clock is None,
        "failing-fsync": shutil.which("strace") is not None and system.clock is None,
        "wrong-clock": system.clock is not None,
        "full-disk": system.disk is not None,
    }
    return [name for name in NEMESES if needs.get(name, True)]
