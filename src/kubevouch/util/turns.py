"""Long work on the event loop, in slices between which others have their turn. What has no slices is ``worker``'s."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


async def give_way() -> None:
    """Let the loop do what is due before this goes on."""
    await asyncio.sleep(0)


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
