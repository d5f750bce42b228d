"""The controllers of one server among several: they work while this process holds the Lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kubevouch.client.interface import TransportError
from kubevouch.client.leader_election import ElectionOptions, LeaderElector, LeaseLostError, own_identity
from kubevouch.controllers.manager import Manager
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.metrics import leading
from kubevouch.standalone.cluster_api import ManagementCluster
from kubevouch.standalone.controllers import ControllerPlan, controller_user
from kubevouch.standalone.server import API_SERVER, StandaloneServer
from kubevouch.util import backoff
from kubevouch.util.logger import get_logger

log = get_logger("standalone.leading")

_RETRY_SECONDS, _RETRY_CAP_SECONDS, _RETRY_CALM_SECONDS = 1.0, 30.0, 120.0


class LedControllers:
    """Stands for the Lease and leads ``plan``'s controllers while it has it, again and again; close it before the
    server.

    Args:
        management: gives where Cluster API's objects are, for one term.
    """

    def __init__(
        self,
        server: StandaloneServer,
        plan: ControllerPlan,
        election: ElectionOptions,
        management: Callable[[], AbstractAsyncContextManager[ManagementCluster | None]],
    ) -> None:
        self._server = server
        self._plan = plan
        self._management = management
        self.manager: Manager | None = None
        """While this process leads; None while it stands by."""
        self._elector = LeaderElector(
            server.api.loopback(API_SERVER, "leader-election"),
            election,
            server.clock,
            identity=own_identity(),
            on_leader=lambda holder: log.info("new leader elected", identity=holder),
        )
        # Is replaced before anybody waits for it.
        self._beside: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
        self._task = asyncio.create_task(self._run(), name="controllers")
        server.api.components["controller-manager"] = self._health
        server.api.metrics.read_at_scrape(lambda: leading.collect(election.name, leads=self.leads))

    @property
    def leads(self) -> bool:
        return self._elector.may_act

    async def _health(self) -> str:
        return "the controllers have stopped" if self._task.done() else ""

    async def _run(self) -> None:
        """Until cancelled. A term that ends is followed by another attempt."""
        clock = self._server.clock
        delays = backoff.CalmingBackoff(
            lambda: backoff.exponential(_RETRY_SECONDS, _RETRY_CAP_SECONDS), _RETRY_CALM_SECONDS
        )
        while True:
            self._beside = asyncio.create_task(self._stand_by(), name="controllers-standing-by")
            try:
                await self._elector.lead(self._term)
            except LeaseLostError as err:
                log.error("leader election lost", err=str(err))
            except (APIStatusError, TransportError) as err:
                log.error("the controllers cannot start", err=str(err))
            finally:
                await self._stand_no_more()
            await clock.sleep(delays.next(clock.monotonic()))

    async def _stand_by(self) -> None:
        """What each server has to do, while another one leads."""
        api = self._server.api
        with self._server.revocations.told_meanwhile():
            await self._plan.manager(lambda name: api.loopback(controller_user(name), name), stands_by=True).run()

    async def _stand_no_more(self) -> None:
        self._beside.cancel()
        await asyncio.wait({self._beside})

    async def _term(self) -> None:
        """Everything anew: what an earlier term knew may be wrong by now."""
        await self._stand_no_more()
        api = self._server.api
        # The Lease is asked before each write: of one that ended unseen nothing is written any more.
        with self._server.revocations.told_meanwhile():
            async with self._management() as management:
                self.manager = self._plan.manager(
                    lambda name: api.loopback(controller_user(name), name, lambda: self._elector.may_act), management
                )
                try:
                    await self.manager.run()
                finally:
                    self.manager = None

    async def close(self) -> None:
        """Stop all work and give the Lease back."""
        self._task.cancel()
        await asyncio.wait({self._task})
