"""How many TLS handshakes run at once; sources that wait take turns.

A handshake costs as much as many requests. A crowd that connects at once, such as a fleet after a power cut, would
otherwise keep the event loop from the connections that are there. One turn goes round the sources, the next three round
their networks, the narrowest first: many addresses in one network bring few more turns than one, and machines that
share a network with many others keep a quarter of the turns that they would have by themselves.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator

from kubevouch.util.addresses import WIDER, wider_prefixes

HANDSHAKES_AT_ONCE = 32
# A client that stalls costs nothing but its slot: that goes to the next one, and the handshake goes on without.
SLOT_SECONDS = 0.1


class HandshakeSlots:
    """Slots for one event loop."""

    def __init__(self, at_once: int = HANDSHAKES_AT_ONCE, seconds: float = SLOT_SECONDS) -> None:
        self._free = at_once
        self._seconds = seconds
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        # The sources that wait, in the order of their turns: each by itself, and by the networks around it.
        self._rings: list[OrderedDict[str, OrderedDict[str, None]]] = [OrderedDict() for _ in range(1 + WIDER)]
        self._turns = 0

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
        queue = self._queues.get(source)
        if queue is None:
            queue = self._queues[source] = deque()
            for ring, network in self._places(source):
                ring.setdefault(network, OrderedDict())[source] = None
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            elif turn in queue:
                queue.remove(turn)
                if not queue:
                    self._leave(source)
            raise

    def give_back(self) -> None:
        """The next source's first one gets the slot."""
        while self._queues:
            source = self._next()
            queue = self._queues[source]
            turn = queue.popleft()
            if not queue:
                self._leave(source)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _next(self) -> str:
        """The source whose turn it is; it, and its network, go behind all others of their ring."""
        self._turns += 1
        # Sources that are no addresses have no networks.
        ring = self._rings[self._turns % len(self._rings)] or self._rings[0]
        network, sources = ring.popitem(last=False)
        ring[network] = sources
        source = next(iter(sources))
        sources.move_to_end(source)
        return source

    def _leave(self, source: str) -> None:
        """Nobody of ``source`` waits any more."""
        del self._queues[source]
        for ring, network in self._places(source):
            del ring[network][source]
            if not ring[network]:
                del ring[network]

    def _places(self, source: str) -> Iterator[tuple[OrderedDict[str, OrderedDict[str, None]], str]]:
        return zip(self._rings, (source, *wider_prefixes(source)), strict=False)


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
