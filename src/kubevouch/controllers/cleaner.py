"""Controllers that pass over all objects of a kind now and then, and act upon no event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from kubevouch.client.cache.informer import SharedInformer
from kubevouch.util.clock import Clock


class Cleaner(ABC):
    """The first pass is due at once: when everything is loaded.

    Args:
        caches: what a pass looks at.
        interval: seconds between passes.
    """

    def __init__(self, name: str, caches: Iterable[SharedInformer[Any]], clock: Clock, interval: float) -> None:
        self._name = name
        self._caches = tuple(caches)
        self._clock = clock
        self._interval = interval
        self._passing = True

    @property
    def name(self) -> str:
        """See :class:`kubevouch.controllers.interface.Controller`, as with the others."""
        return self._name

    @property
    def is_idle(self) -> bool:
        return not self._passing

    async def run(self) -> None:
        for cache in self._caches:
            await cache.wait_synced()
        while True:
            self._passing = True
            try:
                await self.clean()
            finally:
                self._passing = False
            await self._clock.sleep(self._interval)

    @abstractmethod
    async def clean(self) -> None:
        """One pass. What fails is logged and comes again with the next one."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Nothing is held."""
