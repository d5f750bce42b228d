"""Counts and times every request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.endpoints import Served
from kubevouch.server.metrics.catalog import Metrics
from kubevouch.server.metrics.series import OTHER
from kubevouch.server.request import Filter, Handler, Request, Result, WatchResult
from kubevouch.server.request_info import RequestInfo
from kubevouch.util.clock import Clock

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"})
_NAMELESS = ("", "", "", "")


def instrumentation(metrics: Metrics, clock: Clock, served: Served) -> Filter:
    """The filter for one server's metrics."""
    # One request at a time runs on the loop, so plain integers count right.
    under_way = {"mutating": 0, "readOnly": 0}
    for kind in under_way:
        metrics.inflight(kind, partial(under_way.__getitem__, kind))

    async def measure(request: Request, following: Handler) -> Result:
        begun = clock.monotonic()
        code = 500
        kind = "mutating" if request.target.verb in _MUTATING else "readOnly"
        under_way[kind] += 1
        try:
            result = await following(request)
            code = result.status
            if isinstance(result, WatchResult):
                result.ended.append(_watch_began(metrics, request.target))
            return result
        except APIStatusError as err:
            code = err.code
            raise
        finally:
            under_way[kind] -= 1
            info = request.info
            if info is not None and not request.loopback:
                verb = info.verb.upper() if info.is_resource else request.method
                if not info.is_resource and verb not in _METHODS:
                    verb = OTHER
                known = code not in (404, 403, 401) or info.verb in _MUTATING
                labels = (
                    verb,
                    *(_names(served, info) if known else _NAMELESS),
                    _scope(info),
                    "apiserver",
                    "All" if info.verb in _MUTATING and request.query.get("dryRun") else "",
                )
                metrics.request(labels, code, clock.monotonic() - begun, watch=info.verb == "watch")

    return measure


def _uncounted(_events: int, _size: int) -> None:
    """Of a request that nobody has parsed."""


class Traffic:
    """What the edge tells of bytes."""

    def __init__(self, metrics: Metrics, served: Served) -> None:
        self._metrics = metrics
        self._served = served

    def answered(self, request: Request, size: int) -> None:
        """An answer was written, without its head."""
        info = request.info
        if info is not None and info.is_resource and info.verb in ("get", "list"):
            labels = (info.verb.upper(), *_names(self._served, info), _scope(info), "apiserver")
            self._metrics.response_size(labels, size)

    def events(self, request: Request) -> Callable[[int, int], None]:
        """What to call with the number of events written to a watch, and their bytes."""
        info = request.info
        if info is None:
            return _uncounted
        group, version, resource, _ = _names(self._served, info)
        return self._metrics.watch_events(group, version, resource)


def _names(served: Served, info: RequestInfo) -> tuple[str, str, str, str]:
    """Group, version, resource and subresource as labels: of what is served, none of what is only asked for.

    Anybody may ask for any names, and each would stay as a series of 27 samples.
    """
    names = (info.group, info.version, info.resource, info.subresource)
    return names if served.offers(info.verb, *names) else _NAMELESS


def _watch_began(metrics: Metrics, info: RequestInfo) -> Callable[[], None]:
    return metrics.watch_began(info.group, info.version, info.resource, info.subresource, _scope(info))


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name and info.verb not in ("list", "watch", "deletecollection"):
        return "resource"
    return "namespace" if info.namespace else "cluster"
