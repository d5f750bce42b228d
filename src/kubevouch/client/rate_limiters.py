"""How long a key waits before it is tried again.

Numbers: k8s.io/client-go util/workqueue/default_rate_limiters.go, pkg/controller/certificates (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from kubevouch.util.clock import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

BASE_SECONDS = 0.005
CSR_BASE_SECONDS = 0.2  # the certificate controllers' own
CAP_SECONDS = 1000.0
RATE = 10.0
BURST = 100


class RateLimiter(Protocol[K_contra]):
    """Counts the failures of each key."""

    def when(self, key: K_contra) -> float:
        """The seconds that ``key`` waits now; counts as a failure."""
        ...

    def forget(self, key: K_contra) -> None:
        """The key has succeeded, or is given up."""
        ...

    def requeues(self, key: K_contra) -> int:
        """How many failures are counted."""
        ...


class ItemExponential(Generic[K]):
    """``base``, doubled with each failure of the key, at most ``cap``."""

    def __init__(self, base: float, cap: float) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Doubling sixty times is beyond any cap, and within what a float holds.
        return min(self._base * float(2 ** min(failures, 60)), self._cap)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    def requeues(self, key: K) -> int:
        return self._failures.get(key, 0)


class TokenBucket(Generic[K]):
    """``rate`` a second for all keys together, ``burst`` at once.

    Reserves: whoever comes when the bucket is empty waits for a token of his own, so that a burst is spread out.
    """

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def when(self, key: K) -> float:  # noqa: ARG002 - the same for every key
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1.0
        self._at = now
        return max(-self._tokens / self._rate, 0.0)

    def forget(self, key: K) -> None:
        """A token once taken stays taken."""

    def requeues(self, key: K) -> int:  # noqa: ARG002 - keys are not told apart
        return 0


class MaxOf(Generic[K]):
    """The longest wait of several limiters."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: K) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def requeues(self, key: K) -> int:
        return max(limiter.requeues(key) for limiter in self._limiters)


def controller_rate_limiter(clock: Clock, base: float = BASE_SECONDS) -> MaxOf[K]:
    """What every controller of Kubernetes uses: 5 ms (CSRs: ``CSR_BASE_SECONDS``) to 1000 s, and ten a second."""
    return MaxOf(ItemExponential(base, CAP_SECONDS), TokenBucket(RATE, BURST, clock))
