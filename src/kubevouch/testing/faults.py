"""Faults on demand: what goes wrong between a client and an API server, for requests that a test chooses.

    with cluster.faults.error(500, verbs="update", resources="widgets/status"):
        ...

FaultError    a fault is asked for that cannot be had
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Literal, TypedDict, Unpack

import msgspec

from kubevouch.api import catalog
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Status
from kubevouch.machinery.scheme import GroupResource
from kubevouch.registry.interface import Printer
from kubevouch.server.encoding import ObjectEncoder
from kubevouch.server.request import Filter, Handler, Request, Result, WatchResult
from kubevouch.server.request_info import RequestInfo
from kubevouch.server.watch_item import WatchItem
from kubevouch.util.clock import SystemClock

Names = str | Iterable[str]
End = Literal["end", "cut", "expire"]

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
TEXT = "a fault that the test asked for"
TIMEOUT_SECONDS = 30.0
# What kube-apiserver reads of a body.
_MAX_BODY = 3 << 20
# Of connections that are cut, where nothing is written.
_UNUSED = ObjectEncoder(catalog.NAMESPACES, Printer((), lambda _obj, _now: []))


class FaultError(ValueError):
    """What is asked for cannot be had; the text says what can."""


class Chosen(TypedDict, total=False):
    """Which requests are meant; what is left out means any.

    ``verbs``: of ``VERBS``. ``resources``: as RBAC rules have them, with the group where that matters: ``widgets``,
    ``widgets.example.com``, ``widgets/status``, ``widgets/*`` with all subresources. ``namespace`` and ``name`` of the
    object; ``user``: who asks.
    """

    verbs: Names
    resources: Names
    namespace: str
    name: str
    user: str


class Which:
    """What :class:`Chosen` means; ``goes_on``: only lists and watches that go on from an earlier version."""

    def __init__(
        self,
        verbs: Names = (),
        resources: Names = (),
        namespace: str = "",
        name: str = "",
        user: str = "",
        *,
        goes_on: bool = False,
    ) -> None:
        """Raises :class:`FaultError` for what no request has."""
        self._verbs = (verbs,) if isinstance(verbs, str) else tuple(verbs)
        self._resources = (resources,) if isinstance(resources, str) else tuple(resources)
        self._namespace = namespace
        self._name = name
        self._user = user
        self._goes_on = goes_on
        for verb in self._verbs:
            if verb not in VERBS:
                raise FaultError(f"got the verb {verb!r}, expected one of {', '.join(VERBS)}")
        for resource in self._resources:
            if not resource or resource != resource.lower():
                raise FaultError(f"got the resource {resource!r}, expected a plural, such as widgets.example.com")

    def covers(self, request: Request) -> bool:
        target = request.target
        return (
            (not self._verbs or target.verb in self._verbs)
            and (not self._resources or any(_is(target, resource) for resource in self._resources))
            and self._namespace in ("", target.namespace)
            and self._name in ("", target.name)
            and self._user in ("", request.user.name)
            and (not self._goes_on or _goes_on(request))
        )


class Fault:
    """One fault, in force until it has struck ``times``, or :meth:`remove`; as a context it goes with the block."""

    def __init__(self, faults: Faults, which: Which, strike: Filter, times: int | None) -> None:
        self._faults = faults
        self._which = which
        self._strike = strike
        self._times = times
        self._changed = threading.Condition()
        self._struck = 0

    @property
    def struck(self) -> int:
        """How many requests it has struck."""
        return self._struck

    def wait(self, times: int = 1, *, timeout: float = TIMEOUT_SECONDS) -> None:
        """Returns once it has struck so many requests.

        Args:
            timeout: seconds of real time.

        Raises:
            AssertionError: they did not come.
        """
        self._faults.expect_other_thread()
        with self._changed:
            if not self._changed.wait_for(lambda: self._struck >= times, timeout):
                raise AssertionError(f"the fault struck {self._struck} requests within {timeout:g} s, expected {times}")

    def remove(self) -> None:
        """Strike no more."""
        self._faults.forget(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def link(self, request: Request, following: Handler) -> Awaitable[Result]:
        """A link of the chain: strikes, or leaves the request to those behind."""
        if not self._which.covers(request):
            return following(request)
        with self._changed:
            if self._times is not None and self._struck >= self._times:
                return following(request)
            self._struck += 1
            self._changed.notify_all()
        return self._strike(request, following)


class Faults:
    """What goes wrong for clients of one cluster. ``cluster.faults`` is one.

    They strike requests over HTTPS about resources, once those are authenticated and authorized; what the test does
    with the cluster itself, and the controllers in it, are spared. Every method takes what :class:`Chosen` says, and
    ``times``: how many requests are struck; None is all until the fault is removed. Several faults may strike one
    request, in the order in which they were asked for.
    """

    def __init__(self, on_loop: Callable[[Callable[[], int]], int], expect_other_thread: Callable[[], None]) -> None:
        self._on_loop = on_loop
        self.expect_other_thread = expect_other_thread
        # Replaced, never changed: tests and the loop are in different threads.
        self._faults: tuple[Fault, ...] = ()
        self._watches: set[_Watch] = set()
        self._watches_changed = threading.Condition()

    # -------------------------------------------------------------- faults

    def error(
        self, code: int, *, after: bool = False, retry_after: int = 1, times: int | None = 1, **which: Unpack[Chosen]
    ) -> Fault:
        """Answer with a Status of ``code``, in Kubernetes' words.

        Args:
            code: 401, 403, 404, 409, 410, 429, 500, 503 or 504. 409 is "the object has been modified", for a create
                "already exists". A watch gets 410 as Kubernetes sends it: as an event of a stream that has begun.
            after: the request is carried out first, and only its answer is lost.
            retry_after: seconds, as ``Retry-After`` of 429 and 503.
        """
        if code not in _ERRORS:
            raise FaultError(f"got the code {code}, expected one of {', '.join(map(str, _ERRORS))}")

        async def strike(request: Request, following: Handler) -> Result:
            if after:
                await _carry_out(request, following)
            raise await _failure(code, request, retry_after)

        return self._add(Which(**which), _expire if code == 410 else strike, times)

    def conflict(self, *, times: int | None = 1, **which: Unpack[Chosen]) -> Fault:
        """409: somebody else has changed the object meanwhile. Updates and patches, where no verbs are given."""
        which.setdefault("verbs", ("update", "patch"))
        return self.error(409, times=times, **which)

    def too_many_requests(self, *, retry_after: int = 1, times: int | None = 1, **which: Unpack[Chosen]) -> Fault:
        """429 with ``Retry-After`` in seconds, as a server that is busy says."""
        return self.error(429, retry_after=retry_after, times=times, **which)

    def gone(self, *, times: int | None = 1, **which: Unpack[Chosen]) -> Fault:
        """410 Expired: the version from which a list or a watch goes on is no longer kept. Who begins is spared."""
        return self._add(Which(**which, goes_on=True), _expire, times)

    def latency(self, seconds: float, *, times: int | None = None, **which: Unpack[Chosen]) -> Fault:
        """Wait so many seconds of real time before each request is carried out; all of them, until it is removed."""

        async def strike(request: Request, following: Handler) -> Result:
            await SystemClock().sleep(seconds)
            return await following(request)

        return self._add(Which(**which), strike, times)

    def disconnect(self, *, after: bool = False, times: int | None = 1, **which: Unpack[Chosen]) -> Fault:
        """Cut the connection in place of an answer; with ``after`` once the request has been carried out."""

        async def strike(request: Request, following: Handler) -> Result:
            if after:
                await _carry_out(request, following)
            return WatchResult(_cut(), _UNUSED)

        return self._add(Which(**which), strike, times)

    def drop_watches(self, how: End = "end", **which: Unpack[Chosen]) -> int:
        """End the watches that run by now. Returns how many.

        Args:
            how: ``end`` as a server ends one whose time is over, ``cut`` the connection as a network does, or
                ``expire``: a last event says 410, for a watch that has fallen too far behind.
        """
        chosen = Which(**which)
        if how not in ("end", "cut", "expire"):
            raise FaultError(f"got {how!r}, expected end, cut or expire")

        def drop() -> int:
            found = [watch for watch in self._watches if chosen.covers(watch.request)]
            for watch in found:
                watch.drop(how)
            return len(found)

        return self._on_loop(drop)

    def wait_for_watch(self, *, timeout: float = TIMEOUT_SECONDS, **which: Unpack[Chosen]) -> None:
        """Returns once such a watch runs: a client that watches has usually listed before, and hears of everything.

        Args:
            timeout: seconds of real time.

        Raises:
            AssertionError: none came.
        """
        chosen = Which(**which)
        self.expect_other_thread()
        with self._watches_changed:
            if not self._watches_changed.wait_for(
                lambda: any(chosen.covers(watch.request) for watch in tuple(self._watches)), timeout
            ):
                raise AssertionError(f"no such watch within {timeout:g} s: {which}")

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._faults = ()

    # -------------------------------------------------------------- inside

    def forget(self, fault: Fault) -> None:
        """It strikes no more."""
        self._faults = tuple(each for each in self._faults if each is not fault)

    async def link(self, request: Request, following: Handler) -> Result:
        """The last link of the chain before the handlers."""
        if not request.target.is_resource:
            return await following(request)
        for fault in reversed(self._faults):
            following = _linked(fault, following)
        result = await following(request)
        if isinstance(result, WatchResult):
            watch = _Watch(request, result)
            result.ended.append(lambda: self._watches.discard(watch))
            with self._watches_changed:
                self._watches.add(watch)
                self._watches_changed.notify_all()
        return result

    def _add(self, which: Which, strike: Filter, times: int | None) -> Fault:
        fault = Fault(self, which, strike, times)
        self._faults = (*self._faults, fault)
        return fault


def _linked(fault: Fault, following: Handler) -> Handler:
    return lambda request: fault.link(request, following)


def _is(target: RequestInfo, resource: str) -> bool:
    named, _, subresource = resource.partition("/")
    plural, _, group = named.partition(".")
    return (
        plural in ("*", target.resource)
        and group in ("", target.group)
        and subresource in ("*", target.subresource)
    )  # fmt: skip


def _goes_on(request: Request) -> bool:
    if request.target.verb == "watch":
        return request.query.get("resourceVersion") not in ("", "0")
    return bool(request.query.get("continue"))


class _Watch:
    """A watch of a client that runs."""

    def __init__(self, request: Request, result: WatchResult) -> None:
        self.request = request
        self._end = result.end
        self._how: End = "end"
        result.batches = self._batches(result.batches)

    def drop(self, how: End) -> None:
        self._how = how
        self._end()

    async def _batches(self, inner: AsyncGenerator[list[WatchItem], None]) -> AsyncGenerator[list[WatchItem], None]:
        async with aclosing(inner):
            async for batch in inner:
                yield batch
        if self._how == "cut":
            raise ConnectionResetError(TEXT)
        if self._how == "expire":
            yield [_expired(self.request).status]


async def _carry_out(request: Request, following: Handler) -> None:
    """And let nobody have the answer."""
    result = await following(request)
    if isinstance(result, WatchResult):
        await result.close()


async def _expire(request: Request, following: Handler) -> Result:
    """A watch is told inside of its stream."""
    failure = _expired(request)
    if request.target.verb != "watch":
        raise failure
    result = await following(request)
    if isinstance(result, WatchResult):
        await result.batches.aclose()
        result.batches = _only(failure.status)
    return result


async def _only(status: Status) -> AsyncGenerator[list[WatchItem], None]:
    yield [status]


async def _cut() -> AsyncGenerator[list[WatchItem], None]:
    for batch in _reset():
        yield batch


def _reset() -> list[list[WatchItem]]:
    raise ConnectionResetError(TEXT)


# ------------------------------------------------------------------ what is answered


def _expired(request: Request) -> APIStatusError:
    if request.target.verb == "watch":
        asked = request.query.get("resourceVersion") or "0"
        return errors.expired(f"too old resource version: {asked} ({int(asked) + 1 if asked.isdigit() else asked})")
    return errors.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter."
    )


async def _failure(code: int, request: Request, retry_after: int) -> APIStatusError:
    target = request.target
    resource = GroupResource(target.group, target.resource)
    if code == 409:
        if target.verb == "create" and not target.subresource:
            return errors.already_exists(resource, await _name_in_body(request))
        return errors.conflict(resource, target.name)
    return _ERRORS[code](resource, target.name, retry_after)


_ERRORS: dict[int, Callable[[GroupResource, str, int], APIStatusError]] = {
    401: lambda _resource, _name, _after: errors.unauthorized(),
    403: lambda resource, name, _after: errors.forbidden(resource, name, TEXT),
    404: lambda resource, name, _after: errors.not_found(resource, name),
    409: lambda resource, name, _after: errors.conflict(resource, name),
    410: lambda _resource, _name, _after: errors.expired(TEXT),
    429: lambda _resource, _name, after: errors.too_many_requests(
        "Too many requests, please try again later.", after
    ),
    500: lambda _resource, _name, _after: errors.internal(TEXT),
    503: lambda _resource, _name, after: errors.service_unavailable(TEXT, after),
    504: lambda _resource, _name, _after: errors.timeout(TEXT),
}  # fmt: skip


async def _name_in_body(request: Request) -> str:
    """Empty where it cannot be told: of protobuf, and of what is no object."""
    try:
        return msgspec.json.decode(await request.read_body(_MAX_BODY), type=_Named).metadata.name
    except msgspec.DecodeError:
        return ""


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
