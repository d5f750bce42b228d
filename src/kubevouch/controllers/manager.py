"""Starts caches and controllers, and keeps a crash where it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubevouch.client.cache.informer import InformerFactory
from kubevouch.controllers.interface import Controller
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import Supervisor


class Manager:
    """Runs ``controllers`` over the caches of ``informers``; a controller that crashes starts again by itself.

    Args:
        elsewhere: caches over another cluster.
    """

    def __init__(
        self,
        controllers: Sequence[Controller],
        informers: InformerFactory,
        clock: Clock,
        elsewhere: InformerFactory | None = None,
    ) -> None:
        self.controllers = tuple(controllers)
        self.informers = informers
        self._elsewhere = elsewhere
        self._clock = clock

    @property
    def is_idle(self) -> bool:
        """Whether no controller has anything to do until an event or a time comes."""
        return all(controller.is_idle for controller in self.controllers)

    async def run(self) -> None:
        """Work until cancelled. Can be called once."""
        try:
            async with Supervisor(self._clock) as tasks:
                tasks.start("informers", self.informers.run)
                if self._elsewhere is not None:
                    tasks.start("informers-elsewhere", self._elsewhere.run)
                for controller in self.controllers:
                    tasks.start(controller.name, controller.run)
                await asyncio.Event().wait()
        finally:
            for controller in self.controllers:
                controller.close()
