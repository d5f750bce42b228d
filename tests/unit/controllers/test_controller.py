"""controllers/controller.py: workers and the others on their loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from asynctest import async_test
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Request, Result
from kubevouch.testing.clock import FakeClock
from kubevouch.util.turns import SLICE_SECONDS, Pace

WORKERS = 5
# How many requests use up the slice of a turn; each worker does one more at least.
IN_A_SLICE = 10


class _Idle:
    """Finds nothing to do, so never waits; takes its time over that."""

    def __init__(self) -> None:
        self.seen = 0

    def monotonic(self) -> float:
        return self.seen * SLICE_SECONDS / IN_A_SLICE

    async def reconcile(self, request: Request) -> Result:
        self.seen += 1
        return DONE


@async_test
async def test_others_have_their_turn_while_there_is_nothing_to_wait_for() -> None:
    reconciler = _Idle()
    turn = Pace(reconciler.monotonic)
    controller = QueueController("idle-controller", reconciler, FakeClock(), workers=WORKERS, turn=turn)
    count = 200
    for number in range(count):
        controller.queue.add(Request("", f"{number}"))
    running = asyncio.create_task(controller.run())
    seen = [0]
    while reconciler.seen < count:
        await asyncio.sleep(0)
        seen.append(reconciler.seen)
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert max(steps) <= IN_A_SLICE + WORKERS
    # What is short shares turns.
    assert len(steps) < count / WORKERS
    controller.close()
    await running
