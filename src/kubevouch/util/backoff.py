"""How long to wait before the next try. Nothing here waits or looks at a clock.

``Random`` returns a number in [0, 1): ``random.random`` in a program, a constant in a test.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import re
from collections.abc import Callable, Iterator

Random = Callable[[], float]


def exponential(base: float, cap: float, factor: float = 2.0) -> Iterator[float]:
    """``base``, ``base·factor``, ``base·factor²`` … and ``cap`` for ever after, in seconds."""
    delay = base
    while delay < cap:
        yield delay
        delay *= factor
    while True:
        yield cap


def full_jitter(delays: Iterator[float], random: Random) -> Iterator[float]:
    """Each delay drawn evenly between nothing and its full length, so that many clients do not come back at once."""
    return (delay * random() for delay in delays)


def added_jitter(delays: Iterator[float], random: Random, fraction: float = 1.0) -> Iterator[float]:
    """Each delay with up to ``fraction`` of it on top (client-go's ``wait.Jitter``)."""
    return (jittered(delay, random, fraction) for delay in delays)


def jittered(delay: float, random: Random, fraction: float) -> float:
    """``delay`` with up to ``fraction`` of it on top."""
    return delay * (1.0 + fraction * random())


class CalmingBackoff:
    """Growing delays that start over once ``calm`` seconds have passed since the last one was taken.

    As client-go's backoff manager, on which the reflector waits (apimachinery pkg/util/wait, Kubernetes 1.36).
    """

    def __init__(self, delays: Callable[[], Iterator[float]], calm: float) -> None:
        self._make = delays
        self._calm = calm
        self._delays = delays()
        self._taken = float("-inf")

    def next(self, now: float) -> float:
        """The delay to wait at monotonic time ``now``."""
        if now - self._taken > self._calm:
            self._delays = self._make()
        self._taken = now
        return next(self._delays)


_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def retry_after(value: str, now: dt.datetime) -> float | None:
    """The seconds that a Retry-After header asks for (RFC 9110 §10.2.3), None when it says nothing usable."""
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return max((moment - now).total_seconds(), 0.0)
