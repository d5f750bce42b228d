"""What stands before each request of a client: an allowance, and whether this process may still write.

Source: k8s.io/client-go rest/request.go (``tryThrottle``), util/flowcontrol/throttle.go, tools/metrics (Kubernetes
1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubevouch.client.interface import NotLeading
from kubevouch.client.rate_limiters import TokenBucket
from kubevouch.util.clock import Clock

READS = frozenset({"GET", "HEAD"})
NOT_SENT = "not sent, because another process may hold the lease by now"


class RequestMetrics(Protocol):
    """Is told of each request of a client."""

    def waited(self, method: str, seconds: float) -> None:
        """For the client's own allowance."""
        ...

    def answered(self, method: str, status: int, seconds: float) -> None:
        """``status`` is 0 where no answer came."""
        ...


class Gate:
    """Of one client.

    Args:
        qps, burst: requests a second, and at once; a ``qps`` of 0 or less bounds nothing, as client-go's.
        may_write: asked right before each request that is no read; one that comes when it is False is not sent.
    """

    def __init__(
        self,
        clock: Clock,
        metrics: RequestMetrics,
        *,
        qps: float = 0.0,
        burst: int = 1,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.metrics = metrics
        self._clock = clock
        self._bucket: TokenBucket[None] | None = TokenBucket(qps, max(burst, 1), clock) if qps > 0 else None
        self._may_write = may_write

    async def enter(self, method: str) -> None:
        """Wait for a turn. Raises :class:`NotLeading`."""
        if self._bucket is not None:
            seconds = self._bucket.when(None)
            if seconds:
                await self._clock.sleep(seconds)
            self.metrics.waited(method, seconds)
        if method not in READS and not self._may_write():
            raise NotLeading(NOT_SENT)
