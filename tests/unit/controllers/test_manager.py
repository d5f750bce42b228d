"""controllers/manager.py and controllers/controller.py: a crash stays where it happened."""

from __future__ import annotations

import asyncio

from asynctest import async_test
from controller_world import world
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, IgnorableError, Request, Result
from kubevouch.controllers.manager import Manager
from kubevouch.testing.logs import capture_logs


class Crashing:
    """A controller that ends with a bug each time it starts."""

    name = "crashing-controller"
    is_idle = True

    def __init__(self) -> None:
        self.starts = 0
        self.closed = False

    async def run(self) -> None:
        self.starts += 1
        raise RuntimeError("a bug")

    def close(self) -> None:
        self.closed = True


class Scripted:
    """A reconciler that does what the name of the request says."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def reconcile(self, request: Request) -> Result:
        self.seen.append(request.name)
        match request.name:
            case "later":
                return Result(30.0)
            case "expected":
                raise IgnorableError("not yet")
            case "bug":
                raise ZeroDivisionError
        return DONE


@async_test
async def test_a_controller_that_crashes_starts_again_and_the_others_go_on() -> None:
    async with world() as at:
        crashing, scripted = Crashing(), Scripted()
        other = QueueController("other-controller", scripted, at.clock)
        manager = Manager([crashing, other], InformerFactory(at.client, at.clock), at.clock)
        with capture_logs():
            task = asyncio.create_task(manager.run())
            await at.clock.run(2.0)
            other.queue.add(Request("a"))
            await at.clock.run(0.0)
        assert crashing.starts >= 2
        assert scripted.seen == ["a"]
        task.cancel()
        await asyncio.wait({task})
        assert crashing.closed
        other.queue.add(Request("b"))
        assert other.is_idle


@async_test
async def test_what_a_reconciler_answers_decides_when_it_is_asked_again() -> None:
    async with world() as at:
        scripted = Scripted()
        controller = QueueController("c", scripted, at.clock)
        manager = Manager([controller], InformerFactory(at.client, at.clock), at.clock)
        task = asyncio.create_task(manager.run())
        with capture_logs() as logs:
            for name in ("later", "expected", "bug", "fine"):
                controller.queue.add(Request(name))
            await at.clock.run(0.004)
        levels = {line["name"]: (line["log_level"], line["event"]) for line in logs if "name" in line}
        assert levels == {"expected": ("debug", "reconcile failed"), "bug": ("error", "reconcile crashed")}
        assert scripted.seen == ["later", "expected", "bug", "fine"]
        with capture_logs():
            await at.clock.run(0.002)
            assert scripted.seen[4:] == ["expected", "bug"]
            await at.clock.run(30.0)
        assert scripted.seen.count("later") == 2
        assert scripted.seen.count("fine") == 1
        task.cancel()
        await asyncio.wait({task})
