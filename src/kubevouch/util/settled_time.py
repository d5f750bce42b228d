"""A time by which what has ended may be forgotten for good, while the machine's clock may step.

A clock that is a year ahead for a minute, by mistake or by forged NTP, makes everything look ended. What is only
refused counts again once the clock is right; what was deleted does not come back. So a step forward counts a day later,
on the monotonic clock, and a step back at once.
"""

from __future__ import annotations

import datetime as dt

from kubevouch.util.clock import Clock

SETTLES_SECONDS = 24 * 3600.0
TOLERATED_SECONDS = 600.0
"""Of a step, or of what a machine has slept between two looks: no step, then."""


class SettledTime:
    """The clock's time, without a step forward that is not a day old.

    What the clock says when this is made is believed: nothing tells a wrong clock from a long stop.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lead = self._seen()
        # A step that is not believed yet: what the clock would be ahead by, and since when.
        self._step: tuple[float, float] | None = None

    def now(self) -> dt.datetime:
        wall, lead = self._clock.now(), self._seen()
        if lead <= self._lead + TOLERATED_SECONDS:
            self._lead, self._step = lead, None
            return wall
        monotonic = self._clock.monotonic()
        if self._step is None or abs(lead - self._step[0]) > TOLERATED_SECONDS:
            self._step = lead, monotonic
        if monotonic - self._step[1] >= SETTLES_SECONDS:
            self._lead, self._step = lead, None
            return wall
        return wall - dt.timedelta(seconds=lead - self._lead)

    def _seen(self) -> float:
        """How far the wall clock is ahead of the monotonic one."""
        return self._clock.now().timestamp() - self._clock.monotonic()
