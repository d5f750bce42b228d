"""A join in a process of its own, which ends itself as ``kill -9`` would, at the named call of a write or step.

Arguments: endpoint, token, pin, rootfs, and what to die at: the words of a step, ``write N`` (before the N-th file is
written) or nothing; ``jump OFFSET STEP`` sets the clock of ``faketime.WrongClock`` once that step is done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faketime import WrongClock
from kubevouch.agent import certificate_store
from kubevouch.agent.discovery import token_discovery
from kubevouch.agent.interface import AgentError, Step
from kubevouch.phases import join as phase
from kubevouch.phases import kubeconfig
from kubevouch.util import files, logger
from kubevouch.util.clock import SystemClock


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    def __init__(self, last: str) -> None:
        self._last = last

    def done(self, step: Step, detail: str = "") -> None:
        if step.value == self._last:
            _die()
        if self._last.startswith("jump ") and step.value == self._last.split(" ", 2)[2]:
            WrongClock(Path(os.environ["FAKETIME_TIMESTAMP_FILE"])).set(self._last.split(" ")[1])

    def waiting(self, why: str) -> None: ...

    def warning(self, text: str) -> None: ...


def main() -> None:
    endpoint, token, pin, rootfs, last = sys.argv[1:]
    # What the command would not show either.
    logger.send_to(lambda _level, _message, _fields: None)
    if last.startswith("write "):
        _die_at_write(int(last.removeprefix("write ")))
    options = phase.JoinOptions(token_discovery(endpoint, token, [pin], timeout=120.0), "worker-1", Path(rootfs), 120.0)
    try:
        asyncio.run(phase.join(options, SystemClock(), Mortal(last)))
    except AgentError as err:
        sys.exit(f"{err}; {err.hint}")


def _die_at_write(number: int) -> None:
    written = 0

    def write(path: Path, content: bytes, *, mode: int = files.PRIVATE) -> None:
        nonlocal written
        written += 1
        if written == number:
            _die()
        files.write_atomically(path, content, mode=mode)

    for module in (phase, kubeconfig, certificate_store):
        module.write_atomically = write  # type: ignore[attr-defined]  # the modules' own name for it


if __name__ == "__main__":
    main()
