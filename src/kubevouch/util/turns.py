"""Long work on the event loop, in slices between which others have their turn. What has no slices is ``worker``'s."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


async def give_way() -> None:
    """Let the loop do what is due before this goes on."""
    await asyncio.sleep(0)


SLICE_SECONDS = 0.005


class Pace:
    """Turns of one loop for many short pieces of work, of which hardly one is worth a turn.

    All who ask share one slice of time in each turn. Whoever finds it used up gives way, and then does one piece at
    least, so that none is kept waiting for good: a turn takes no longer than the slice and a piece of each.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until = 0.0
        self._renewing = False

    async def keep(self) -> None:
        """To be called before each piece."""
        if self._monotonic() < self._until:
            return
        if not self._renewing:
            # Comes before all who give way in this turn.
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew)
        await give_way()

    def _renew(self) -> None:
        self._renewing = False
        self._until = self._monotonic() + SLICE_SECONDS


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace() -> Pace:
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    found = _paces.get(loop)
    if found is None:
        found = _paces[loop] = Pace()
    return found


async def take(
    found: Iterator[T], size: int, *, keep: Callable[[T], bool] | None = None, most: int | None = None
) -> list[T]:
    """The first ``most`` of ``found`` that ``keep`` accepts; None means all. Gives way after each ``size`` looked at.

    Others may act meanwhile, so ``found`` has to be an iterator that outlasts what they do. It is used up: more than
    what is returned may have been taken out of it.
    """
    taken: list[T] = []
    while most is None or len(taken) < most:
        wanted = size if most is None or keep is not None else min(size, most - len(taken))
        part = list(islice(found, wanted))
        taken += part if keep is None else filter(keep, part)
        if len(part) < wanted:
            break
        if most is None or len(taken) < most:
            await give_way()
    if most is not None:
        del taken[most:]
    return taken
