"""How many TLS handshakes run at once; sources that wait take turns.

A handshake costs as much as many requests. A crowd that connects at once, such as a fleet after a power cut, would
otherwise keep the event loop from the connections that are there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

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

    def slot(self, source: str) -> _Slot:
        """For ``async with``: waits for a slot; inside the block it is held, for a time."""
        return _Slot(self, source)

    async def take(self, source: str) -> float:
        """Wait for a slot; after so many seconds it is to be given back at the latest."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(source, asyncio.get_running_loop().create_future())
        return self._seconds

    async def _wait(self, source: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.setdefault(source, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            elif turn in queue:
                queue.remove(turn)
                if not queue:
                    self._queues.pop(source, None)
            raise

    def give_back(self) -> None:
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


class _Slot:
    """One use of a slot; a generator would take twice as long."""

    __slots__ = ("_held", "_slots", "_source", "_timer")

    def __init__(self, slots: HandshakeSlots, source: str) -> None:
        self._slots = slots
        self._source = source
        self._held = False

    async def __aenter__(self) -> None:
        seconds = await self._slots.take(self._source)
        self._held = True
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        self._end()

    def _end(self) -> None:
        if self._held:
            self._held = False
            self._slots.give_back()
