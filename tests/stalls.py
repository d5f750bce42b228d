"""Fails what holds the event loop of a server: in this process, and in those that tests start.

The verdict is by processor time of the loop's thread, so it does not matter how long the thread waited for a processor.
How much one does in a second does matter, so a test fails at three times what the monitor tells of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kubevouch
from kubevouch.util.loop_monitor import STALL_SECONDS, LoopMonitor, Stall, observed

ALLOWED_SECONDS = 3 * STALL_SECONDS
"""The same step takes up to so much longer where another thread shares the core and its caches."""

_OURS = f"{Path(kubevouch.__file__).parent}/"
_TESTS = (f"{Path(__file__).parent}/", f"{_OURS}testing/")
# The node's side and the work of commands, on a loop that only a test shares with a server.
_ELSEWHERE = (f"{_OURS}agent/", f"{_OURS}phases/")
_LINE = re.compile(r'^W.*"event loop held" seconds=\S+ cpu=(\S+) .*$|^\{.*"msg": "event loop held".*$', re.MULTILINE)


class LoopStalled(AssertionError):
    """The event loop was held; the text has the places."""


@contextmanager
def no_stalls() -> Iterator[list[Stall]]:
    """Raises :class:`LoopStalled` at its end if a server of this process stalled inside; gives the stalls so far.

    The garbage collector's time does not count here: its heap is the test process's, with all that pytest holds.
    What a test does itself on a loop that it shares with a server does not count either.
    """
    seen: list[Stall] = []

    def see(stall: Stall) -> None:
        if stall.cpu_seconds - stall.collector_seconds > ALLOWED_SECONDS and not _is_of_a_test(stall):
            seen.append(stall)

    with observed(see):
        yield seen
    if seen:
        raise LoopStalled("\n".join(map(str, seen)))


def _is_of_a_test(stall: Stall) -> bool:
    """Whether the innermost function that is the server's or a test's is a test's, or it is not the server's at all."""
    files = [file for file, _, _ in stall.stack]
    known = (file for file in files if file.startswith((_OURS, *_TESTS)))
    return next(known, "").startswith(_TESTS) or any(file.startswith(_ELSEWHERE) for file in files)


def without_stalls(text: str) -> str:
    """The standard error of a server without the lines of its loop monitor, which depend on the machine."""
    return re.sub(rf"(?:{_LINE.pattern})\n", "", text, flags=re.MULTILINE)


def expect_no_stalls(text: str) -> None:
    """Raises :class:`LoopStalled` if the standard error of a server tells of processor time that held its loop."""
    found = [each[0] for each in _LINE.finditer(text) if _cpu_seconds(each) > ALLOWED_SECONDS]
    if found:
        raise LoopStalled("\n".join(found))


def _cpu_seconds(line: re.Match[str]) -> float:
    return float(line[1] if line[1] is not None else json.loads(line[0])["cpu"])


@contextmanager
def monitored() -> Iterator[None]:
    """Watches the running loop as a server's: for what a test calls without one."""
    monitor = LoopMonitor()
    monitor.start()
    try:
        yield
    finally:
        monitor.stop()
