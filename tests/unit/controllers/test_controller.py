"""controllers/controller.py: workers and the others on their loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from asynctest import async_test
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Request, Result
from kubevouch.testing.clock import FakeClock

# Each takes one request in a turn of the loop.
WORKERS = 5


class _Idle:
    """Finds nothing to do, so never waits."""

    def __init__(self) -> None:
        self.seen = 0

    async def reconcile(self, request: Request) -> Result:
        self.seen += 1
        return DONE


@async_test
async def test_others_have_their_turn_while_there_is_nothing_to_wait_for() -> None:
    reconciler = _Idle()
    controller = QueueController("idle-controller", reconciler, FakeClock(), workers=WORKERS)
    count = 200
    for number in range(count):
        controller.queue.add(Request("", f"{number}"))
    running = asyncio.create_task(controller.run())
    seen = [0]
    while reconciler.seen < count:
        await asyncio.sleep(0)
        seen.append(reconciler.seen)
    assert max(later - earlier for earlier, later in pairwise(seen)) <= WORKERS
    controller.close()
    await running
