"""One rotation in a process of its own, which ends itself as ``kill -9`` would, at its N-th change of a file.

Arguments: the root of a machine that has joined, and N; 0 lives on.
"""

from __future__ import annotations

import asyncio
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


def _die_at(number: int, folder: str) -> None:
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
                os.kill(os.getpid(), signal.SIGKILL)

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


def main() -> None:
    root, number = Path(sys.argv[1]), int(sys.argv[2])
    if number:
        _die_at(number, str(root / "var/lib/kubelet/pki"))
    asyncio.run(_rotate(root))


if __name__ == "__main__":
    main()
