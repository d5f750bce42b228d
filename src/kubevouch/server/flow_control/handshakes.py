"""How many TLS handshakes run at once; sources that wait take turns.

A handshake costs as much as many requests. A crowd that connects at once, such as a fleet after a power cut, would
otherwise keep the event loop from the connections that are there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HANDSHAKES_AT_ONCE = 32
# A client that stalls costs nothing but its slot: that goes to the next one, and the handshake goes on without.
SLOT_SECONDS = 0.1


class HandshakeSlots:
    """Slots for one event loop."""

    def __init__(self, at_once: int = HANDSHAKES_AT_ONCE, seconds: float = SLOT_SECONDS) -> None:
        self._free = at_once
        self._seconds = seconds
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    @asynccontextmanager
    async def slot(self, source: str) -> AsyncIterator[None]:
        """Waits for a slot; inside the block it is held, for a time."""
        loop = asyncio.get_running_loop()
        if self._free:
            self._free -= 1
        else:
            await self._wait(source, loop.create_future())
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._give_back()

        timer = loop.call_later(self._seconds, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()

    async def _wait(self, source: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.setdefault(source, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            elif turn in queue:
                queue.remove(turn)
                if not queue:
                    self._queues.pop(source, None)
            raise

    def _give_back(self) -> None:
        """The next source's first one gets the slot."""
        while self._queues:
            source, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[source] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
