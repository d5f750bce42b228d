"""A watch ends when the request that began it would be refused by now.

Kubernetes looks at a credential when a request comes, so that a watch outlives its token, its certificate and its
rights by up to an hour. Here each running watch is judged again every few seconds, by the same authenticator and
authorizer; its client then asks anew, and hears the 401 or 403. When something is revoked, all that this
may reach are judged at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec
from msgspec import structs

from kubevouch.authentication import request_header, service_account, webhook, x509
from kubevouch.authentication.interface import Authentication, AuthenticationError
from kubevouch.authentication.union import UnionAuthenticator
from kubevouch.authorization.interface import Authorizer, Decision
from kubevouch.authorization.messages import forbidden
from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.filters.authorization import attributes_of
from kubevouch.server.filters.impersonation import impersonation
from kubevouch.server.request import BytesResult, Handler, Request, Result, WatchResult
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.timers import Timer, Timers
from kubevouch.util.turns import give_way

log = get_logger("server")

# With the timers' tick and the judging itself, a watch outlives what it stood on by less than 10 s.
JUDGE_SECONDS = 7.5
# One takes some 20 µs.
_AT_ONCE = 100
# A token counts as long as the node that it is bound to.
_REVOCABLE = frozenset((x509.METHOD, request_header.METHOD, service_account.METHOD))
_JUDGED = BytesResult(b"", "")

_jitter = random.Random()  # noqa: S311 - spreads work, guards nothing


class _Watch(msgspec.Struct, eq=False):
    """A running watch: who asked for it, and how it ends."""

    request: Request
    began_as: Authentication
    end: Callable[[], None]
    timer: Timer | None = None
    is_over: bool = False

    def forget(self) -> None:
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()


class WatchStanding:
    """Judges the running watches of one server.

    Args:
        timers: of the same clock.
    """

    def __init__(self, authenticator: UnionAuthenticator, authorizer: Authorizer, clock: Clock, timers: Timers) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._impersonation = impersonation(authorizer)
        self._clock = clock
        self._timers = timers
        self._due: list[_Watch] = []
        # Those that a revocation may reach.
        self._revocable: set[_Watch] = set()
        self._judging: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Judge no more."""
        for task in self._judging:
            task.cancel()
        if self._judging:
            await asyncio.wait(self._judging)

    async def filter(self, request: Request, following: Handler) -> Result:
        """Stands between authentication and impersonation: the user is still the credential's own."""
        began_as = request.authentication
        result = await following(request)
        if isinstance(result, WatchResult) and began_as is not None and not request.loopback:
            watch = _Watch(request, began_as, result.end)
            # A crowd that came at once is not judged at once.
            self._arm(watch, JUDGE_SECONDS * _jitter.random())
            result.ended.append(watch.forget)
            if began_as.method in _REVOCABLE:
                self._revocable.add(watch)
                result.ended.append(lambda: self._revocable.discard(watch))
        return result

    def judge_credentials(self) -> None:
        """Judge at once what a client's or a proxy's certificate began, or a token that may be bound to a node."""
        for watch in self._revocable:
            if watch.timer is not None:
                watch.timer.cancel()
            self._call(watch)

    def _arm(self, watch: _Watch, seconds: float) -> None:
        watch.timer = self._timers.at(self._clock.monotonic() + seconds, lambda: self._call(watch))

    def _call(self, watch: _Watch) -> None:
        """What is due in one turn is judged by one task: a webhook that is slow delays nobody else."""
        if not self._due:
            task = asyncio.create_task(self._judge_due(), name="watch-standing")
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)
        self._due.append(watch)

    async def _judge_due(self) -> None:
        due, self._due = self._due, []
        for number, watch in enumerate(due, 1):
            if not watch.is_over:
                reason = await self._fault(watch)
                if not reason:
                    self._arm(watch, JUDGE_SECONDS)
                elif not watch.is_over:
                    request = watch.request
                    log.info("a watch ended with what it stood on", audit_id=request.audit_id, reason=reason)
                    watch.end()
            if not number % _AT_ONCE:
                await give_way()

    async def _fault(self, watch: _Watch) -> str:
        """Why the request would be refused by now; empty if it would not, or if nobody can tell."""
        request, found = watch.request, watch.began_as
        if found.method != webhook.METHOD:
            # Whoever asks another service remembers its answer for minutes, and cannot tell a refusal from an outage.
            try:
                found = await self._authenticator.authenticate(request.credentials, request.target.path)
            except AuthenticationError as err:
                return str(err)
            if (found.user.name, found.user.uid) != (watch.began_as.user.name, watch.began_as.user.uid):
                return "the credential is somebody else's by now"
        probe = structs.replace(request, authentication=found, annotations={}, warnings=[])
        try:
            await self._impersonation(probe, self._authorize)
        except APIStatusError as err:
            return err.status.message
        return ""

    async def _authorize(self, request: Request) -> Result:
        attributes = attributes_of(request)
        verdict = await self._authorizer.authorize(attributes)
        if verdict.decision is not Decision.ALLOW and not verdict.error:
            raise forbidden(attributes, verdict.reason)
        return _JUDGED
