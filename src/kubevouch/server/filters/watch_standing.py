"""A watch ends when the request that began it would be refused by now.

Kubernetes looks at a credential when a request comes, so that a watch outlives its token, its certificate and its
rights by up to an hour. Here each running watch is judged again by the same authenticator and authorizer: at once when
something changes that it may stand on (``server.watch_grounds``), and every few seconds, because time and other
services tell nobody. Its client then asks anew, and hears the 401 or 403.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Set

import msgspec
from msgspec import structs

from kubevouch.authentication import request_header, service_account, webhook, x509
from kubevouch.authentication.interface import Authentication, AuthenticationError, UserInfo
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
from kubevouch.wellknown import NODE_NAME_EXTRA

log = get_logger("server")

# With the timers' tick and the judging itself, a watch outlives what has expired by less than 10 s.
JUDGE_SECONDS = 7.5
# Nor is one judged more often, whatever changes: with the tick, it outlives what was taken away by less than 1 s.
LEAST_SECONDS = 0.4
# One takes some 20 µs.
_AT_ONCE = 100
# A token counts as long as the node that it is bound to.
_REVOCABLE = frozenset((x509.METHOD, request_header.METHOD, service_account.METHOD))
_JUDGED = BytesResult(b"", "")

_jitter = random.Random()  # noqa: S311 - spreads work, guards nothing


class _Watch(msgspec.Struct, eq=False):
    """A running watch: who asked for it, and how it ends.

    ``judged``: when it last was, by the monotonic clock. ``is_due``: it waits for its judge, or is before it;
    ``has_changed``: something has changed since the judge began to look.
    """

    request: Request
    began_as: Authentication
    end: Callable[[], None]
    impersonates: bool = False
    timer: Timer | None = None
    judged: float = float("-inf")
    is_due: bool = False
    has_changed: bool = False
    is_over: bool = False

    @property
    def user(self) -> UserInfo:
        return self.began_as.user

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
        # In the order in which they began; by the credential's user.
        self._watches: dict[_Watch, None] = {}
        self._by_user: dict[str, dict[_Watch, None]] = {}
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
            watch = _Watch(request, began_as, result.end, request.authentication is not began_as)
            self._watches[watch] = None
            self._by_user.setdefault(began_as.user.name, {})[watch] = None
            # A crowd that came at once is not judged at once.
            self._arm(watch, JUDGE_SECONDS * _jitter.random())
            result.ended.append(lambda: self._forget(watch))
        return result

    def _forget(self, watch: _Watch) -> None:
        watch.forget()
        self._watches.pop(watch, None)
        theirs = self._by_user.get(watch.user.name)
        if theirs is not None:
            theirs.pop(watch, None)
            if not theirs:
                del self._by_user[watch.user.name]

    # -------------------------------------------------------------- what has changed

    def judge_all(self) -> None:
        """Whom to believe, or who may what, has changed as a whole."""
        self._judge(self._watches)

    def judge_credentials(self) -> None:
        """A client's or a proxy's certificate may count no more, or a token that may be bound to a node."""
        self._judge(each for each in self._watches if each.began_as.method in _REVOCABLE)

    def judge_user(self, name: str) -> None:
        """The credential of this user may count no more."""
        self._judge(self._by_user.get(name, ()))

    def judge_users(self, prefix: str) -> None:
        """Likewise, of all whose names begin so."""
        self._judge(each for each in self._watches if each.user.name.startswith(prefix))

    def judge_bound_to(self, node: str) -> None:
        """Tokens that are bound to this node may count no more."""
        self._judge(each for each in self._watches if node in each.user.extra.get(NODE_NAME_EXTRA, ()))

    def judge_rights(self, namespace: str) -> None:
        """Somebody may have lost rights in a namespace; empty for all of them."""
        self._judge(
            each
            for each in self._watches
            if not namespace or each.impersonates or each.request.target.namespace == namespace
        )

    def judge_subjects(self, names: Set[str], groups: Set[str]) -> None:
        """These users and groups may have lost rights; whoever acts as somebody else may act as one of them."""
        self._judge(
            each
            for each in self._watches
            if each.impersonates or each.user.name in names or not groups.isdisjoint(each.user.groups)
        )

    def _judge(self, watches: Iterable[_Watch]) -> None:
        now = self._clock.monotonic()
        for watch in watches:
            watch.has_changed = True
            if watch.is_due:
                continue
            if watch.timer is not None:
                watch.timer.cancel()
            wait = watch.judged + LEAST_SECONDS - now
            if wait > 0:
                self._arm(watch, wait)
            else:
                self._call(watch)

    def _arm(self, watch: _Watch, seconds: float) -> None:
        watch.timer = self._timers.at(self._clock.monotonic() + seconds, lambda: self._call(watch))

    def _call(self, watch: _Watch) -> None:
        """What is due in one turn is judged by one task: a webhook that is slow delays nobody else."""
        watch.is_due = True
        if not self._due:
            task = asyncio.create_task(self._judge_due(), name="watch-standing")
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)
        self._due.append(watch)

    async def _judge_due(self) -> None:
        due, self._due = self._due, []
        for number, watch in enumerate(due, 1):
            if not watch.is_over:
                watch.has_changed = False
                reason = await self._fault(watch)
                watch.judged, watch.is_due = self._clock.monotonic(), False
                if not reason:
                    self._arm(watch, LEAST_SECONDS if watch.has_changed else JUDGE_SECONDS)
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
