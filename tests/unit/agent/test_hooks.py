from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

from agent_world import Network, managed, pass_time, running
from asynctest import async_test
from kubevouch.agent import hooks as module
from kubevouch.agent.hooks import Hooks
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


@async_test
async def test_one_that_fails_is_told_and_does_not_hold_up_the_next(tmp_path: Path) -> None:
    async with Cluster(now=NOW, controllers=("*",)) as cluster:
        it = managed(Network(cluster), tmp_path)
        async with running(it):
            await pass_time(cluster, 60)
        said = tmp_path / "said"
        commands = [
            ("/bin/sh", "-c", "echo broken; exit 3"),
            ("/nowhere/at/all",),
            ("/bin/sh", "-c", f'echo "$KUBEVOUCH_CERTIFICATE_NAME $KUBEVOUCH_CERTIFICATE" > {said}'),
        ]
        await Hooks({"client": commands, "serving": [("/bin/false",)]}, SystemClock()).renewed(it.manager, None)
        assert it.manager.standing.hooks == [
            "/bin/sh: it ended with status 3: broken",
            "/nowhere/at/all: No such file or directory",
        ]
        assert said.read_text() == f"client {it.store.current_path}\n"
        await Hooks({"client": commands[2:]}, SystemClock()).renewed(it.manager, None)
        assert it.manager.standing.hooks == []


@async_test
async def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    async with Cluster(now=NOW) as cluster:
        it = managed(Network(cluster), tmp_path)
        running_hook = Hooks({"client": [("/bin/sleep", "1000")]}, cluster.clock).renewed(it.manager, None)

        task = asyncio.create_task(running_hook)
        while not task.done():  # the server's own sleepers come and go
            await asyncio.sleep(0)
            cluster.clock.advance(module.HOOK_SECONDS)
        await task
        assert it.manager.standing.hooks == ["/bin/sleep: it took longer than 60 s and was ended"]
