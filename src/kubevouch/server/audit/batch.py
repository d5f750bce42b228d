"""Between requests and a slow backend: a bounded buffer that is emptied in batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from kubevouch.util.clock import Clock

log = structlog.get_logger("audit")

BUFFER_EVENTS = 10_000  # --audit-webhook-batch-buffer-size
# What is held at the end has this long to get out.
CLOSE_SECONDS = 5.0


class Batches:
    """Hands events to ``deliver`` in their order, at most ``size`` at once. Events over the buffer's size are dropped.

    Args:
        deliver: writes or sends one batch; an ``OSError`` or a ``DeliveryError`` loses it.
        wait: seconds that a batch may wait to become full.
        on_lost: told how many events were dropped or could not be delivered.
    """

    def __init__(
        self,
        deliver: Callable[[list[bytes]], Awaitable[None]],
        clock: Clock,
        *,
        size: int,
        wait: float = 0.0,
        buffer: int = BUFFER_EVENTS,
        on_lost: Callable[[int], None],
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._size = size
        self._wait = wait
        self._buffer = buffer
        self._on_lost = on_lost
        self._events: deque[bytes] = deque()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def record(self, event: bytes) -> None:
        if len(self._events) >= self._buffer:
            self._on_lost(1)
            return
        self._events.append(event)
        if len(self._events) >= self._size:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="audit-batches")

    async def _run(self) -> None:
        while self._events:
            if self._wait > 0 and not self._full.is_set() and not self._closing:
                await self._until_full()
            batch = [self._events.popleft() for _ in range(min(self._size, len(self._events)))]
            if len(self._events) < self._size:
                self._full.clear()
            try:
                await self._deliver(batch)
            except (OSError, DeliveryError) as err:
                self._on_lost(len(batch))
                log.error("audit events are lost", count=len(batch), err=str(err))

    async def _until_full(self) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(self._wait))
        full = asyncio.ensure_future(self._full.wait())
        try:
            await asyncio.wait({timer, full}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (timer, full):
                each.cancel()

    async def close(self) -> None:
        """Deliver what is held; what takes too long is lost and counted."""
        self._closing = True
        self._full.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
        if self._events:
            self._on_lost(len(self._events))
            self._events.clear()


class DeliveryError(Exception):
    """A batch could not be delivered."""
