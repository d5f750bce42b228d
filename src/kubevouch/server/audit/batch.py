"""Between requests and a slow backend: events are delivered together, and by the mode requests wait for them or not.

DeliveryError             a batch could not be delivered
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from kubevouch.client.rate_limiters import TokenBucket
from kubevouch.server.audit.options import BatchOptions, Mode
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("audit")

# Besides the buffer size, which counts events: one with its body and its answer may have 6 MiB.
MAX_WAITING_BYTES = 64 << 20
# What is held at the end has this long to get out.
CLOSE_SECONDS = 5.0
BUFFERED = "buffered"
"""Kubernetes' name of the buffer, for events that it has no room for."""


class DeliveryError(Exception):
    """A batch could not be delivered."""


class Batches:
    """Hands events to ``deliver`` in their order. In mode ``batch`` events over the buffer's size are dropped; in the
    others each request waits until its event is delivered, and what waits meanwhile is delivered together.

    Args:
        deliver: writes or sends one batch; an ``OSError`` or a ``DeliveryError`` loses it.
        most: events delivered at once.
        most_bytes: bytes delivered at once, unless one event alone is larger; None is no limit.
        on_dropped, on_lost: told how many events found no room, or could not be delivered.
    """

    def __init__(
        self,
        deliver: Callable[[list[bytes]], Awaitable[None]],
        clock: Clock,
        options: BatchOptions,
        *,
        mode: Mode,
        most: int,
        most_bytes: int | None = None,
        on_dropped: Callable[[int], None],
        on_lost: Callable[[int], None],
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._options = options
        self._mode = mode
        self._most, self._most_bytes = most, most_bytes
        self._on_dropped, self._on_lost = on_dropped, on_lost
        self._throttle: TokenBucket[str] | None = None
        if mode is Mode.BATCH and options.throttle_enable:
            self._throttle = TokenBucket(options.throttle_qps, options.throttle_burst, clock)
        self._waiting: deque[tuple[bytes, asyncio.Future[bool] | None]] = deque()
        self._waiting_bytes = 0
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def record(self, event: bytes) -> asyncio.Future[bool] | None:
        """As :meth:`kubevouch.server.audit.interface.AuditBackend.record`."""
        loop = asyncio.get_running_loop()
        kept = None
        if self._mode is not Mode.BATCH:
            kept = loop.create_future()
        elif len(self._waiting) >= self._options.buffer_size or self._waiting_bytes + len(event) > MAX_WAITING_BYTES:
            self._on_dropped(1)
            return None
        self._waiting.append((event, kept))
        self._waiting_bytes += len(event)
        if len(self._waiting) >= self._options.max_size:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(), name="audit-batches")
        return kept

    async def _run(self) -> None:
        while self._waiting:
            if self._mode is Mode.BATCH and not self._closing:
                if self._options.max_wait > 0 and not self._full.is_set():
                    await self._until_full()
                if self._throttle is not None:
                    await self._clock.sleep(self._throttle.when(""))
            batch = self._next()
            if len(self._waiting) < self._options.max_size:
                self._full.clear()
            delivered = False
            try:
                await self._deliver([event for event, _ in batch])
                delivered = True
            except (OSError, DeliveryError) as err:
                log.error("audit events are lost", count=len(batch), err=str(err))
            finally:
                if not delivered:
                    self._on_lost(len(batch))
                for _, kept in batch:
                    if kept is not None and not kept.done():
                        kept.set_result(delivered or self._mode is not Mode.BLOCKING_STRICT)

    def _next(self) -> list[tuple[bytes, asyncio.Future[bool] | None]]:
        batch = [self._taken()]
        size = len(batch[0][0])
        while self._waiting and len(batch) < self._most:
            size += len(self._waiting[0][0])
            if self._most_bytes is not None and size > self._most_bytes:
                break
            batch.append(self._taken())
        return batch

    def _taken(self) -> tuple[bytes, asyncio.Future[bool] | None]:
        taken = self._waiting.popleft()
        self._waiting_bytes -= len(taken[0])
        return taken

    async def _until_full(self) -> None:
        timer = asyncio.ensure_future(self._clock.sleep(self._options.max_wait))
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
        if self._waiting:
            self._on_lost(len(self._waiting))
        for _, kept in self._waiting:
            if kept is not None and not kept.done():
                kept.set_result(self._mode is not Mode.BLOCKING_STRICT)
        self._waiting.clear()
        self._waiting_bytes = 0
