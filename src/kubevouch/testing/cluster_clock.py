"""The clock of a cluster: a FakeClock that may be moved and waited on from any thread and any loop."""

from __future__ import annotations

import datetime as dt

from kubevouch.testing.clock import FakeClock, settle
from kubevouch.testing.loop_thread import LoopThread


class ClusterClock(FakeClock):
    """Stands still until it is moved. Moving it from outside of the cluster's thread also lets the woken run."""

    def __init__(self, start: dt.datetime, home: LoopThread | None) -> None:
        super().__init__(start)
        self._home = home

    def __repr__(self) -> str:
        return f"<ClusterClock at {self.now().isoformat()}>"

    def advance(self, seconds: float) -> None:
        if self._home is None or self._home.is_current:
            super().advance(seconds)
        else:
            self._home.call(self._advance(seconds))

    def set(self, now: dt.datetime) -> None:
        if self._home is None or self._home.is_current:
            super().set(now)
        else:
            self._home.call(self._set(now))

    async def sleep(self, seconds: float) -> None:
        await (super().sleep(seconds) if self._home is None else self._home.reach(super().sleep(seconds)))

    async def until_asleep(self, sleepers: int = 1) -> None:
        await (
            super().until_asleep(sleepers) if self._home is None else self._home.reach(super().until_asleep(sleepers))
        )

    async def run(self, seconds: float) -> None:
        await (super().run(seconds) if self._home is None else self._home.reach(super().run(seconds)))

    async def _advance(self, seconds: float) -> None:
        super().advance(seconds)
        await settle()

    async def _set(self, now: dt.datetime) -> None:
        super().set(now)
