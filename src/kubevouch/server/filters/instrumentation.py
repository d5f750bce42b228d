"""Counts and times every request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.metrics import Metrics
from kubevouch.server.request import Filter, Handler, Request, Result, WatchResult
from kubevouch.server.request_info import RequestInfo
from kubevouch.util.clock import Clock

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def instrumentation(metrics: Metrics, clock: Clock) -> Filter:
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
                if not info.is_resource and verb not in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
                    verb = "other"
                known = code not in (404, 403, 401) or info.verb in _MUTATING
                labels = (
                    verb,
                    info.group if known else "",
                    info.version if known else "",
                    info.resource if known else "",
                    info.subresource if known else "",
                    _scope(info),
                    "apiserver",
                    "All" if request.query.get("dryRun") else "",
                )
                metrics.request(labels, code, clock.monotonic() - begun, watch=info.verb == "watch")

    return measure


def _uncounted(_events: int, _size: int) -> None:
    """Of a request that nobody has parsed."""


class Traffic:
    """What the edge tells of bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def answered(self, request: Request, size: int) -> None:
        """An answer was written, without its head."""
        info = request.info
        if info is not None and info.is_resource and info.verb in ("get", "list"):
            labels = (info.verb.upper(), info.group, info.version, info.resource, info.subresource, _scope(info))
            self._metrics.response_size((*labels, "apiserver"), size)

    def events(self, request: Request) -> Callable[[int, int], None]:
        """What to call with the number of events written to a watch, and their bytes."""
        info = request.info
        if info is None:
            return _uncounted
        return self._metrics.watch_events(info.group, info.version, info.resource)


def _watch_began(metrics: Metrics, info: RequestInfo) -> Callable[[], None]:
    return metrics.watch_began(info.group, info.version, info.resource, info.subresource, _scope(info))


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name and info.verb not in ("list", "watch", "deletecollection"):
        return "resource"
    return "namespace" if info.namespace else "cluster"
