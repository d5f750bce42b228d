"""What the API of a cloud has answered: kept for a while, asked for once by all who want it, and so often a minute.

A flood of requests for certificates must not use up the calls that an account has: other programs live of them too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from kubevouch.attestation.interface import UnavailableError
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT_SECONDS = 60.0
MISSING_SECONDS = 5.0
"""That something is not there is believed for shorter: it may have been made a moment ago."""
MAX_ANSWERS = 4096
CALLS_PER_MINUTE = 240


class APIAnswers(Generic[K, V]):
    """Args:
    calls_per_minute: at most, whoever wants them.
    kept_seconds: for how long an answer counts.
    """

    def __init__(
        self, clock: Clock, *, calls_per_minute: int = CALLS_PER_MINUTE, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self._clock = clock
        self._kept_seconds = kept_seconds
        self._answers: ExpiringCache[K, tuple[float, V | None]] = ExpiringCache(MAX_ANSWERS, clock)
        self._calls: deque[float] = deque(maxlen=calls_per_minute)
        self._asking: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    async def get(self, key: K, ask: Callable[[], Awaitable[V | None]], *, fresh: bool = False) -> V | None:
        """What ``ask`` says of ``key``; None is what it says of what is not there.

        Args:
            fresh: no answer counts that was given before this call.

        Raises:
            UnavailableError: of ``ask``, or too many calls in this minute.
        """
        asked = self._clock.monotonic()
        lock = self._asking.get(key)
        if lock is None:
            lock = self._asking[key] = asyncio.Lock()
        async with lock:
            kept = self._answers.get(key)
            if kept is not None and (not fresh or kept[0] > asked):
                return kept[1]
            self._count()
            answer = await ask()
            moment = self._clock.monotonic()
            self._answers.put(key, (moment, answer), MISSING_SECONDS if answer is None else self._kept_seconds)
            return answer

    def _count(self) -> None:
        now = self._clock.monotonic()
        if len(self._calls) == self._calls.maxlen and now - self._calls[0] < 60:
            raise UnavailableError(
                f"the cloud was asked {len(self._calls)} times within a minute, as often as it may be",
                retry_after=60 - (now - self._calls[0]),
            )
        self._calls.append(now)
