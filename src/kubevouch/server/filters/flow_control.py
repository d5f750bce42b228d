"""Holds requests back until their lane has room, and sends away who would wait too long.

The decisions are in ``server/flow_control``; here are the futures, the turns of the event loop and the 429.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping

from kubevouch.authentication.interface import Credentials
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.revocation.publication import PREFIX as REVOCATION_PREFIX
from kubevouch.server.flow_control.lanes import DEFAULT_LIMITS, Lane, LaneLimits, classify
from kubevouch.server.flow_control.public_reads import PublicReads
from kubevouch.server.flow_control.scheduler import FairScheduler, Outcome
from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.server.request import Handler, Request, Result
from kubevouch.util.addresses import source_prefix, wider_prefixes
from kubevouch.util.clock import Clock
from kubevouch.util.timers import Timer, Timers
from kubevouch.util.worker import LARGE_BYTES, Share, Worker, sharing

# --max-requests-inflight plus --max-mutating-requests-inflight: what Kubernetes' flow control shares out.
DEFAULT_SEATS = 600
RETRY_AFTER_SECONDS = 1
# The worst body of so many bytes keeps the loop for as long as a cheap request does in all.
BYTES_PER_WEIGHT = 512
MAX_WEIGHT = 1 + LARGE_BYTES // BYTES_PER_WEIGHT
TOO_MANY = "Too many requests, please try again later."
# Bad credentials of one source before its answers become 429. The check itself is never left out: it costs less than
# a refusal, and an address may be shared by a good machine and a bad one. 83 bits of a token are not guessed anyway.
FAILURES_BURST = 300
FAILURES_PER_SECOND = 10.0
# Of each wider network around it, the narrowest first: /56, /48 and /32, or /24, /20 and /16.
# Four sources that send all they may use a network up: no single one has its neighbours' good tokens wait.
NETWORK_FAILURES = ((1_200, 40.0), (4_800, 160.0), (19_200, 640.0))


def _uid_of(kind: str, lane: Lane) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{lane}.{kind}.flowcontrol.kubevouch.io"))


# Kubernetes tells UIDs, not names, so that nobody learns how the administrator sorts requests.
_FLOW_HEADERS = {
    lane: {
        "X-Kubernetes-Pf-Flowschema-Uid": _uid_of("flowschema", lane),
        "X-Kubernetes-Pf-Prioritylevel-Uid": _uid_of("prioritylevel", lane),
    }
    for lane in Lane
}


def too_many_requests(retry_after_seconds: int = RETRY_AFTER_SECONDS) -> APIStatusError:
    return errors.too_many_requests(TOO_MANY, retry_after_seconds)


class _Ticket:
    """A request that may have to wait."""

    __slots__ = ("admitted", "flow", "lane")

    def __init__(self, lane: Lane, flow: str) -> None:
        self.lane = lane
        self.flow = flow
        self.admitted: asyncio.Future[bool] | None = None

    def settle(self, *, admitted: bool) -> bool:
        """Whether somebody still waits for the answer."""
        if self.admitted is None or self.admitted.done():
            return False
        self.admitted.set_result(admitted)
        return True


class FlowControl:
    """The scheduler on an event loop. :meth:`seat` stands before authorization, :meth:`credentials` before
    authentication."""

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        *,
        seats: int = DEFAULT_SEATS,
        limits: Mapping[Lane, LaneLimits] = DEFAULT_LIMITS,
        failures: SourceBudget | None = None,
        public_reads: PublicReads | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.scheduler: FairScheduler[_Ticket] = FairScheduler(limits, seats)
        self.failures_refused = 0
        self._paced = frozenset(lane for lane, each in limits.items() if each.per_turn is not None)
        self._worker = worker
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._failures = SourceBudget(FAILURES_PER_SECOND, FAILURES_BURST) if failures is None else failures
        self._network_failures = [SourceBudget(rate, burst) for burst, rate in NETWORK_FAILURES]
        self._turn_comes = False
        self.public_reads = PublicReads() if public_reads is None else public_reads
        # Of their own: whoever asks about certificates keeps nobody from joining.
        self.revocation_reads = PublicReads(is_public=lambda info: info.path.startswith(f"{REVOCATION_PREFIX}/"))

    def forgive(self) -> None:
        """What sources have spent counts no more."""
        for budget in (self._failures, *self._network_failures):
            budget.clear()
        self.public_reads.clear()
        self.revocation_reads.clear()

    # -------------------------------------------------------------- filters

    async def seat(self, request: Request, following: Handler) -> Result:
        """The filter: ``following`` runs on a seat of the request's lane, and has a share of the worker's time.

        A watch gives its seat back once it has begun.

        Raises:
            APIStatusError: 429.
        """
        source = source_prefix(request.credentials.source)
        if request.loopback:
            lane, flow = Lane.EXEMPT, ""
        else:
            for budget in (self.public_reads, self.revocation_reads):
                wait = budget.wait(request.target, request.user, source, self._clock.monotonic())
                if wait:
                    raise too_many_requests(wait)
            lane, flow = classify(request.target, request.user, source)
        request.reply_headers = _FLOW_HEADERS[lane]
        request.share = Share(self._worker, lane + " " + (flow or request.user.name))
        with sharing(request.share):
            if lane is Lane.EXEMPT:
                return await following(request)
            await self._take(lane, flow, weight_of(request))
            try:
                result = await following(request)
            finally:
                self._give_back(lane, flow)
            if "dryRun" not in request.query:
                self.public_reads.requested(request.target, request.user, source, self._clock.monotonic())
            return result

    async def credentials(self, request: Request, following: Handler) -> Result:
        """The filter: counts bad credentials by source, and has sources with too many wait in a lane of their own.

        Raises:
            APIStatusError: 429 in place of 401 from a source over its budget.
        """
        if request.loopback:
            return await following(request)
        source = source_prefix(request.credentials.source)
        if self._is_suspect(request.credentials, source):
            flow = f"{source} {_claimed_identity(request.credentials)}"
            await self._take(Lane.SUSPECT, flow)
            self._give_back(Lane.SUSPECT, flow)
        try:
            return await following(request)
        except APIStatusError as err:
            if err.code == 401 and request.authentication is None:
                wait = self._failed(source)
                if wait:
                    self.failures_refused += 1
                    raise too_many_requests(wait) from None
            raise

    def _is_suspect(self, credentials: Credentials, source: str) -> bool:
        if credentials.authorization is None or credentials.peer_chain:
            return False
        if not len(self._failures):
            return False
        now = self._clock.monotonic()
        return self._failures.left(source, now) < 1.0 or any(
            budget.left(network, now) < 1.0 for budget, network in self._networks(source)
        )

    def _failed(self, source: str) -> int:
        """A bad credential has come from ``source``: 0, or the seconds that it has to wait, itself or its networks."""
        now = self._clock.monotonic()
        wait = self._failures.spend(source, now)
        # What is over its own budget is not its neighbours' to pay.
        return wait or max((budget.spend(network, now) for budget, network in self._networks(source)), default=0)

    def _networks(self, source: str) -> Iterator[tuple[SourceBudget, str]]:
        return zip(self._network_failures, wider_prefixes(source), strict=False)

    # -------------------------------------------------------------- seats

    async def _take(self, lane: Lane, flow: str, weight: int = 1) -> None:
        scheduler, ticket = self.scheduler, _Ticket(lane, flow)
        outcome = scheduler.arrive(lane, flow, ticket, self._clock.monotonic(), weight)
        if outcome is Outcome.RUN:
            if lane in self._paced:
                self._ask_for_turn()
            return
        if outcome is Outcome.REFUSE:
            raise too_many_requests()
        ticket.admitted = asyncio.get_running_loop().create_future()
        self._ask_for_turn()
        self._arm()
        try:
            admitted = await ticket.admitted
        except asyncio.CancelledError:
            if not ticket.admitted.cancelled() and ticket.admitted.result():
                self._give_back(lane, flow)
            else:
                scheduler.abandon(lane, flow, ticket)
            raise
        if not admitted:
            raise too_many_requests()

    def _give_back(self, lane: Lane, flow: str) -> None:
        self.scheduler.leave(lane, flow)
        if self._timer is not None:  # somebody waits
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._turn_comes:
            self._turn_comes = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_comes = False
        self.scheduler.new_turn()
        if self._timer is None:  # nobody waits
            return
        for ticket in self.scheduler.due():
            if not ticket.settle(admitted=True):
                self._give_back(ticket.lane, ticket.flow)
        if self.scheduler.is_held_by_turn:
            self._ask_for_turn()

    # -------------------------------------------------------------- waiting too long

    def _arm(self) -> None:
        if self._timer is None:
            deadline = self.scheduler.next_deadline()
            if deadline is not None:
                self._timer = self._timers.at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for ticket in self.scheduler.expired(self._clock.monotonic()):
            ticket.settle(admitted=False)
        self._arm()


def weight_of(request: Request) -> int:
    """What a request costs the event loop at most, by its body: about a millisecond each.

    A body that is larger costs the loop no more; see ``util/worker.py``. One of unknown length may be any.
    """
    if request.method == "GET":
        return 1
    length = request.headers.get("Content-Length", "")
    if not length:
        return 1 if "Transfer-Encoding" not in request.headers else MAX_WEIGHT
    known = int(length) if length.isascii() and length.isdigit() and len(length) < 10 else LARGE_BYTES
    return min(1 + known // BYTES_PER_WEIGHT, MAX_WEIGHT)


def _claimed_identity(credentials: Credentials) -> str:
    """What a bearer token says it is before its first dot: a bootstrap token's id, which is no secret."""
    return (credentials.authorization or "").rpartition(" ")[2].partition(".")[0][:64]
