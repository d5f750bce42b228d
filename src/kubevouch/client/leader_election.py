"""Of several processes one acts: whoever holds a Lease.

    ElectionOptionsError   durations with which two could lead at once, or none for long
    LeaseLostError         the Lease could not be renewed in time, or somebody else holds it; nobody acts here any more

Source: k8s.io/client-go tools/leaderelection/{leaderelection,healthzadaptor}.go, resourcelock/leaselock.go (Kubernetes
1.36). Clocks of other machines are never compared with this one's: a Lease has lapsed when *this* process has seen it
unchanged for as long as it says. Three differences, all to the safe side. The renewal deadline counts from the last
renewal that was *sent*, not from the next attempt; who sees another holder stops at once; and :attr:`may_act` is asked
before each write, so that a process that stood still while its Lease ended (SIGSTOP, a suspended machine) writes
nothing when it goes on.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random as random_module
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import LEASES
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.client.interface import Client, TransportError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline
from kubevouch.util.uuids import random_uuid

log = get_logger("client.leader_election")

JITTER_FACTOR = 1.2
LEASE_NAME = "kubevouch-controllers"
"""Not kube-controller-manager's: who held that one would stop all of its controllers."""

# leaderelection.NewLeaderHealthzAdaptor, as kube-controller-manager calls it.
_TOLERATED_SECONDS = 20.0
_SECOND = dt.timedelta(seconds=1)
# An int32; with one more no API server would let anybody acquire the Lease.
_MOST_TRANSITIONS = 2**31 - 1


class ElectionOptionsError(ValueError):
    """Durations with which two could lead at once; the text is client-go's."""


class LeaseLostError(Exception):
    """The Lease could not be renewed in time, or somebody else holds it."""


class ElectionOptions(msgspec.Struct, frozen=True):
    """kube-controller-manager's ``--leader-elect-*`` flags.

    Raises:
        ElectionOptionsError
    """

    namespace: str = wellknown.KUBE_SYSTEM_NAMESPACE
    name: str = LEASE_NAME
    lease_duration: dt.timedelta = dt.timedelta(seconds=15)
    renew_deadline: dt.timedelta = dt.timedelta(seconds=10)
    retry_period: dt.timedelta = dt.timedelta(seconds=2)

    def __post_init__(self) -> None:
        nothing = dt.timedelta()
        if self.lease_duration <= self.renew_deadline:
            raise ElectionOptionsError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= JITTER_FACTOR * self.retry_period:
            raise ElectionOptionsError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.lease_duration < _SECOND:
            # A Lease counts whole seconds.
            raise ElectionOptionsError("leaseDuration must be at least one second")
        if self.retry_period <= nothing:
            raise ElectionOptionsError("retryPeriod must be greater than zero")


class ElectionMetrics(Protocol):
    """Is told how an election goes."""

    def leading(self, *, now: bool) -> None: ...

    def slow_path(self) -> None:
        """A renewal needed a read first."""
        ...


class Unmeasured:
    """An :class:`ElectionMetrics` that keeps nothing."""

    def leading(self, *, now: bool) -> None: ...

    def slow_path(self) -> None: ...


def own_identity() -> str:
    """``<host>_<uuid>``, as kube-controller-manager's: two processes on one machine are two."""
    return f"{socket.gethostname()}_{random_uuid()}"


class LeaderElector:
    """Stands for one Lease. One :meth:`lead` at a time.

    Args:
        client: reads and writes the Lease, and waits for no other requests of this process.
        identity: whom the Lease names; nobody else's.
        on_leader: is told each new holder's identity, our own included.
    """

    def __init__(
        self,
        client: Client,
        options: ElectionOptions,
        clock: Clock,
        *,
        identity: str,
        random: backoff.Random = random_module.random,
        on_leader: Callable[[str], None] = lambda _holder: None,
        metrics: ElectionMetrics | None = None,
    ) -> None:
        self.identity = identity
        self.options = options
        self._client = client
        self._clock = clock
        self._random = random
        self._on_leader = on_leader
        self._metrics = metrics or Unmeasured()
        self._duration = options.lease_duration.total_seconds()
        self._deadline = options.renew_deadline.total_seconds()
        self._retry = options.retry_period.total_seconds()
        # The Lease as it was last seen, and when this process saw it change.
        self._seen: Lease | None = None
        self._seen_at = float("-inf")
        # Both clocks when the last renewal that succeeded was sent; None while somebody else may lead.
        self._renewed: tuple[float, dt.datetime] | None = None
        self._reported = ""

    @property
    def holder(self) -> str:
        """Who leads as far as is known; empty for nobody."""
        return (self._seen.spec.holder_identity or "") if self._seen is not None else ""

    @property
    def is_leader(self) -> bool:
        return self._renewed is not None

    @property
    def may_act(self) -> bool:
        """Whether the Lease was renewed so lately that nobody else can have it.

        By the monotonic clock, which stands still while a machine is suspended, and by the wall clock, which does not.
        """
        return self._renewed is not None and self._since(self._renewed) < self._deadline

    @property
    def is_healthy(self) -> bool:
        """False for a leader that should have stopped, and has not."""
        if self._renewed is None:
            return True
        return self._since(self._renewed) <= self._duration + _TOLERATED_SECONDS

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease, do ``work`` while it holds, and give it back when ``work`` is over or this is cancelled.

        Raises:
            LeaseLostError: it could not be renewed; ``work`` was cancelled, and has ended.
        """
        await self._acquire()
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._keep(), name=f"lease-{self.options.name}")
        lost = False
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.done()
        finally:
            for task in (working, renewing):
                task.cancel()
            # Only when nobody works here any more may somebody else begin.
            interrupted = await _ended({working, renewing})
            await self._release()
        if interrupted:
            raise asyncio.CancelledError
        if lost:
            renewing.result()
        working.result()

    # -------------------------------------------------------------- the loop

    async def _acquire(self) -> None:
        log.info("attempting to acquire leader lease", lease=self._lease)
        while not await self._attempt():
            await self._clock.sleep(backoff.jittered(self._retry, self._random, JITTER_FACTOR))
        log.info("successfully acquired lease", lease=self._lease, identity=self.identity)
        self._metrics.leading(now=True)

    async def _keep(self) -> None:
        """Renew for ever. Raises :class:`LeaseLostError`."""
        while True:
            await self._clock.sleep(self._until_next())
            renewed = await self._attempt()
            if not renewed and self.holder != self.identity:
                raise LeaseLostError(f"the lease {self._lease} is held by {self.holder or 'nobody'}")
            if not self.may_act:
                raise LeaseLostError(f"the lease {self._lease} could not be renewed for {self._deadline:g} s")

    def _until_next(self) -> float:
        """Never past the deadline, at which the work has to end."""
        assert self._renewed is not None
        return max(min(self._retry, self._deadline - self._since(self._renewed)), 0.0)

    async def _attempt(self) -> bool:
        sent = self._clock.monotonic(), self._clock.now()
        try:
            # As kube-controller-manager's client for leases; a leader's attempt ends with its time to lead.
            left = max(self._deadline / 2, 1.0)
            if self._renewed is not None:
                left = min(left, max(self._deadline - self._since(self._renewed), 0.0))
            async with deadline(self._clock, left):
                held = await self._acquire_or_renew()
        except TimeoutError:
            log.error("error retrieving resource lock", lease=self._lease, err="no answer in time")
            return False
        except (APIStatusError, TransportError) as err:
            log.error("error retrieving resource lock", lease=self._lease, err=str(err))
            return False
        if held:
            self._renewed = sent
        self._report()
        return held

    def _report(self) -> None:
        if self.holder != self._reported:
            self._reported = self.holder
            self._on_leader(self.holder)

    async def _acquire_or_renew(self) -> bool:
        """Raises :class:`APIStatusError`, :class:`TransportError`."""
        if self._renewed is not None and self._seen is not None and self.holder == self.identity:
            # The usual way: nobody has touched it.
            try:
                self._see(await self._write(self._seen))
            except (APIStatusError, TransportError) as err:
                log.info("failed to update lease optimistically, reading it first", lease=self._lease, err=str(err))
                self._metrics.slow_path()
            else:
                return True
        try:
            found = await self._client.get(LEASES, self.options.name, self.options.namespace)
        except APIStatusError as err:
            if err.code != 404:
                raise
            return await self._create()
        if self._seen is None or found.spec != self._seen.spec:
            self._see(found)
        else:
            self._seen = found
        if self.holder and self.holder != self.identity and not self._has_lapsed(found):
            return False
        self._see(await self._write(found))
        return True

    def _has_lapsed(self, lease: Lease) -> bool:
        seconds = lease.spec.lease_duration_seconds or 0
        return self._clock.monotonic() - self._seen_at >= seconds

    def _see(self, lease: Lease) -> None:
        self._seen, self._seen_at = lease, self._clock.monotonic()

    async def _create(self) -> bool:
        meta = ObjectMeta(name=self.options.name, namespace=self.options.namespace)
        try:
            self._see(await self._client.create(LEASES, Lease(metadata=meta, spec=self._spec(None))))
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise
            return False
        return True

    async def _write(self, lease: Lease) -> Lease:
        """With the version that was read: of two who take it at once, one does."""
        return await self._client.update(LEASES, msgspec.structs.replace(lease, spec=self._spec(lease.spec)))

    def _spec(self, former: LeaseSpec | None) -> LeaseSpec:
        now = MicroTime.of(self._clock.now())
        acquired, transitions = now, 0
        if former is not None:
            transitions = former.lease_transitions or 0
            if former.holder_identity == self.identity and former.acquire_time is not None:
                acquired = former.acquire_time
            else:
                transitions = min(transitions + 1, _MOST_TRANSITIONS)
        return msgspec.structs.replace(
            former or LeaseSpec(),
            holder_identity=self.identity,
            lease_duration_seconds=int(self._duration),
            acquire_time=acquired,
            renew_time=now,
            lease_transitions=transitions,
        )

    # -------------------------------------------------------------- the end

    async def _release(self) -> None:
        """So that somebody else leads at once. What fails is waited out by them."""
        self._renewed = None
        self._metrics.leading(now=False)
        if self._seen is None or self.holder != self.identity:
            return
        now = MicroTime.of(self._clock.now())
        spec = msgspec.structs.replace(
            self._seen.spec, holder_identity="", lease_duration_seconds=1, acquire_time=now, renew_time=now
        )
        try:
            async with deadline(self._clock, self._deadline / 2):
                self._see(await self._client.update(LEASES, msgspec.structs.replace(self._seen, spec=spec)))
        except (APIStatusError, TransportError, TimeoutError) as err:
            log.info("failed to release lease", lease=self._lease, err=str(err))
        else:
            log.info("released lease", lease=self._lease)
        self._reported = ""

    def _since(self, moment: tuple[float, dt.datetime]) -> float:
        monotonic, wall = moment
        return max(self._clock.monotonic() - monotonic, (self._clock.now() - wall).total_seconds())

    @property
    def _lease(self) -> str:
        return f"{self.options.namespace}/{self.options.name}"


async def _ended(tasks: set[asyncio.Future[None]]) -> bool:
    """Wait for tasks that were cancelled; whether this one was cancelled meanwhile."""
    interrupted = False
    while any(not task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            interrupted = True
    return interrupted
