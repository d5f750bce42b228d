"""One rotation or recovery in a process of its own, which ends itself as ``kill -9`` would, at its N-th file change.

Arguments: the root of a machine that has joined, and N; 0 lives on. A recovery has one more: by how many seconds the
machine's clock is ahead.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kubevouch.agent.daemon import Agent
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.options import AgentOptions
from kubevouch.util.clock import SystemClock

# What Python tells of files that are made, changed or moved, before it happens.
_CHANGES = frozenset({"os.rename", "os.symlink", "os.remove", "os.link", "os.chmod", "os.truncate", "os.mkdir"})


def _signal_at(number: int, folder: str, how: signal.Signals) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            # Opened for writing, whether by open() or os.open().
            changes = isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        else:
            changes = event in _CHANGES
        if changes and any(folder in os.fsdecode(each) for each in arguments if isinstance(each, str | bytes | Path)):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), how)

    sys.addaudithook(hook)


async def _rotate(root: Path) -> None:
    files = ClusterFiles(root / "etc/kubernetes/kubelet.conf")
    options = AgentOptions("worker-1", files, cert_dir=root / "var/lib/kubelet/pki")
    agent = Agent(options, SystemClock())
    agent.prepare()
    before = agent.client.pair
    assert before is not None
    agent.client.rotate_now()
    while agent.client.pair is None or agent.client.pair.leaf == before.leaf:
        await agent.client.step()


class AheadClock(SystemClock):
    """The machine's clock, so many seconds later."""

    def __init__(self, seconds: float) -> None:
        self._ahead = dt.timedelta(seconds=seconds)

    def now(self) -> dt.datetime:
        return super().now() + self._ahead


async def _recover(root: Path, ahead: float) -> None:
    files = ClusterFiles(root / "etc/kubernetes/kubelet.conf")
    options = AgentOptions("worker-1", files, cert_dir=root / "var/lib/kubelet/pki", expiration_seconds=3600)
    agent = Agent(options, AheadClock(ahead), random=lambda: 0.0)
    agent.prepare()
    while not agent.client.usable:
        await agent.client.step()


def main() -> None:
    root, at = Path(sys.argv[1]), sys.argv[2]
    how = signal.SIGSTOP if at.startswith("stop ") else signal.SIGKILL
    if at != "0":
        _signal_at(int(at.removeprefix("stop ")), str(root / "var/lib/kubelet/pki"), how)
    asyncio.run(_recover(root, float(sys.argv[3])) if len(sys.argv) > 3 else _rotate(root))


if __name__ == "__main__":
    main()
