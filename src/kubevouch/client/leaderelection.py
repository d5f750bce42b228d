"""One of several processes leads: a Lease that the leader renews and the others watch run out.

Whether a lease still holds is judged by how long ago *this* process saw the record change, by its own monotonic clock
and the duration in the record; nobody's wall clock is compared with anybody's
(k8s.io/client-go tools/leaderelection, Kubernetes 1.36).
"""

from __future__ import annotations

import asyncio
import random as random_module
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from kubevouch.api.catalog import LEASES
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.client.interface import Client, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

log = structlog.get_logger("client.leaderelection")

JITTER_FACTOR = 1.2
HEALTH_GRACE_SECONDS = 20.0
RELEASED_DURATION_SECONDS = 1


class LeadershipLost(Exception):
    """The lease could not be renewed in time. The process must not go on: it cannot know what a new leader does."""


class ElectionError(ValueError):
    """Settings with which an election cannot work; Kubernetes' sentence."""


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """Seconds (k8s.io/component-base config/v1alpha1/defaults.go)."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def verify(self) -> ElectionTimes:
        """These times. Raises :class:`ElectionError` when a leader could lose its lease without noticing."""
        if self.lease_duration <= self.renew_deadline:
            raise ElectionError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * JITTER_FACTOR:
            raise ElectionError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.renew_deadline <= 0:
            raise ElectionError("renewDeadline must be greater than zero")
        if self.retry_period <= 0:
            raise ElectionError("retryPeriod must be greater than zero")
        return self

    @property
    def request_timeout(self) -> float:
        """For the client of the lease: it has to have time for a second try."""
        return max(1.0, self.renew_deadline / 2)


def verify_resource_lock(kind: str) -> str:
    """The kind of the lock (``--leader-elect-resource-lock``). Raises :class:`ElectionError` for all but Leases."""
    if kind != "leases":
        raise ElectionError('resourceLock value must be "leases"')
    return kind


def default_identity() -> str:
    """``<hostname>_<uuid>``: another one for each start of the process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where the Lease is: the namespace, and by convention the component's name."""

    name: str
    namespace: str = "kube-system"


# ------------------------------------------------------------------ decisions


@dataclass(frozen=True, slots=True)
class Observation:
    """The record as it was last seen to change, and the monotonic time of that."""

    spec: LeaseSpec
    at: float

    @property
    def holder(self) -> str:
        return self.spec.holder_identity or ""

    def holds(self, now: float) -> bool:
        """Whether the lease, whoever has it, has not run out yet by this process' own view."""
        return bool(self.holder) and now < self.at + (self.spec.lease_duration_seconds or 0)


def observe(former: Observation | None, spec: LeaseSpec, now: float) -> Observation:
    """What is known after ``spec`` was read: only a change counts as a sign of life."""
    return former if former is not None and former.spec == spec else Observation(spec, now)


def claim(spec: LeaseSpec | None, identity: str, duration: float, now: MicroTime) -> LeaseSpec:
    """The record by which ``identity`` takes or renews the lease whose record is ``spec`` (None: there is none)."""
    transitions, acquired = 0, now
    if spec is not None:
        renewed = spec.holder_identity == identity
        transitions = (spec.lease_transitions or 0) + (0 if renewed else 1)
        acquired = (spec.acquire_time or now) if renewed else now
    # Whole seconds on the wire; never less than a leader takes for itself.
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(int(-(-duration // 1)), 1),
        acquire_time=acquired,
        renew_time=now,
        lease_transitions=transitions,
    )


def released(spec: LeaseSpec, now: MicroTime) -> LeaseSpec:
    """The record by which its holder gives the lease back: free at once."""
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=RELEASED_DURATION_SECONDS,
        acquire_time=now,
        renew_time=now,
        lease_transitions=spec.lease_transitions,
    )


# ------------------------------------------------------------------ the elector


class ElectionMetrics(Protocol):
    """Where an elector reports."""

    def leading(self, leads: bool) -> None:
        """``leader_election_master_status``."""
        ...

    def slow_path(self) -> None:
        """``leader_election_slowpath_total``."""
        ...


class NoMetrics:
    """Reports to nobody."""

    def leading(self, leads: bool) -> None:
        pass

    def slow_path(self) -> None:
        pass


class LeaderElector:
    """Takes part in one election.

    Args:
        client: best one of its own, with ``times.request_timeout``: a renewal must not queue behind other traffic.
        identity: who takes part; no two processes may share one.
        release_on_stop: give the lease back when stopped, so that the next leader need not wait. Safe only when
            everything that acts as the leader has ended by then.
        on_started: called when this process starts to lead, with a message for an Event.
        on_stopped: called when it does not lead any more.
        on_new_leader: called with the identity of each leader that is seen, this one's too.
    """

    def __init__(
        self,
        client: Client,
        lease: LeaseName,
        identity: str,
        clock: Clock,
        *,
        times: ElectionTimes = ElectionTimes(),
        release_on_stop: bool = False,
        on_started: Callable[[str], None] = lambda _message: None,
        on_stopped: Callable[[str], None] = lambda _message: None,
        on_new_leader: Callable[[str], None] = lambda _identity: None,
        metrics: ElectionMetrics | None = None,
        random: backoff.Random = random_module.random,
    ) -> None:
        """Raises :class:`ElectionError`."""
        if not identity:
            raise ElectionError("Lock identity is empty")
        self._client = client
        self._lease = lease
        self._identity = identity
        self._clock = clock
        self._times = times.verify()
        self._release_on_stop = release_on_stop
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._on_new_leader = on_new_leader
        self._metrics = metrics or NoMetrics()
        self._random = random
        self._observed: Observation | None = None
        self._stored: Lease | None = None
        self._reported = ""

    @property
    def leading(self) -> bool:
        """Whether this process leads by the record as it last saw it."""
        return self._observed is not None and self._observed.holder == self._identity

    @property
    def leader(self) -> str:
        """Who leads, as last seen; empty for nobody or not known yet."""
        return self._observed.holder if self._observed is not None else ""

    def verify_health(self) -> None:
        """For the health check ``leaderElection``.

        Raises:
            LeadershipLost: this process takes itself for the leader and has not renewed for far too long.
        """
        if not self.leading or self._observed is None:
            return
        if self._clock.monotonic() - self._observed.at > self._times.lease_duration + HEALTH_GRACE_SECONDS:
            raise LeadershipLost(f"failed election to renew leadership on lease {self._lease.name}")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``lead`` for as long as it is kept. Returns when ``lead`` does.

        ``lead`` is cancelled, and its end waited for, when the lease is lost.

        Raises:
            LeadershipLost: it was lost. End the process.
        """
        await self._acquire()
        log.info("Successfully acquired lease", lease=self._lease.name)
        self._metrics.leading(True)
        self._on_started(f"{self._identity} became leader")
        try:
            await self._lead(lead)
        finally:
            self._metrics.leading(False)
            self._on_stopped(f"{self._identity} stopped leading")
            if self._release_on_stop:
                await self._release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.create_task(self._renew(), name="lease-renewal")
        tasks: set[asyncio.Future[None]] = {leading, renewing}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
            else:
                renewing.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # -------------------------------------------------------------- loops

    async def _acquire(self) -> None:
        log.info("Attempting to acquire leader lease...", lease=self._lease.name)
        while not await self._try():
            await self._clock.sleep(backoff.jittered(self._times.retry_period, self._random, JITTER_FACTOR))

    async def _renew(self) -> None:
        started = self._clock.monotonic()
        while True:
            # From the start of the attempt that succeeded: others may have seen its record before its answer came.
            give_up = started + self._times.retry_period + self._times.renew_deadline
            await self._clock.sleep(self._times.retry_period)
            try:
                async with deadline(self._clock, give_up - self._clock.monotonic()):
                    started = self._clock.monotonic()
                    while not await self._try():
                        await self._clock.sleep(self._times.retry_period)
                        started = self._clock.monotonic()
            except TimeoutError as err:
                log.error("leaderelection lost/stopped", lease=self._lease.name)
                raise LeadershipLost(
                    f"lease {self._lease.namespace}/{self._lease.name} was not renewed within "
                    f"{self._times.renew_deadline:g} s"
                ) from err

    async def _try(self) -> bool:
        """One attempt to take or renew the lease. True when this process holds it now."""
        try:
            return await self._renew_blindly() or await self._take()
        except (APIStatusError, TransportError) as err:
            log.warning("Failed to renew lease", lease=self._lease.name, error=str(err))
            return False

    async def _renew_blindly(self) -> bool:
        """The leader's fast path: one PUT at the version that it wrote last."""
        observed, stored = self._observed, self._stored
        if stored is None or observed is None or not self.leading or not observed.holds(self._clock.monotonic()):
            return False
        try:
            await self._write(stored, stored.spec)
        except (APIStatusError, TransportError) as err:
            log.warning("Failed to update lease optimistically, falling back to slow path", error=str(err))
            self._metrics.slow_path()
            return False
        return True

    async def _take(self) -> bool:
        try:
            stored = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except APIStatusError as err:
            if err.code != 404:
                raise
            return await self._create()
        now = self._clock.monotonic()
        self._see(stored)
        if self._observed is not None and self._observed.holds(now) and not self.leading:
            log.debug("Lease is held by and has not yet expired", holder=self.leader)
            return False
        await self._write(stored, stored.spec)
        return True

    async def _create(self) -> bool:
        metadata = ObjectMeta(name=self._lease.name, namespace=self._lease.namespace)
        self._see(await self._client.create(LEASES, Lease(metadata=metadata, spec=self._claim(None))))
        return True

    async def _write(self, stored: Lease, spec: LeaseSpec) -> None:
        self._see(await self._client.update(LEASES, msgspec.structs.replace(stored, spec=self._claim(spec))))

    def _claim(self, spec: LeaseSpec | None) -> LeaseSpec:
        return claim(spec, self._identity, self._times.lease_duration, MicroTime.of(self._clock.now()))

    def _see(self, stored: Lease) -> None:
        self._stored = stored
        self._observed = observe(self._observed, stored.spec, self._clock.monotonic())
        if self.leader != self._reported:
            self._reported = self.leader
            self._on_new_leader(self.leader)

    async def _release(self) -> None:
        """Give the lease back, unless somebody else has it already. A failure is logged: it runs out by itself."""
        try:
            async with deadline(self._clock, self._times.renew_deadline):
                stored = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
                if stored.spec.holder_identity == self._identity:
                    spec = released(stored.spec, MicroTime.of(self._clock.now()))
                    self._see(await self._client.update(LEASES, msgspec.structs.replace(stored, spec=spec)))
        except (APIStatusError, TransportError, TimeoutError) as err:
            log.warning("Failed to release lease", lease=self._lease.name, error=str(err))
