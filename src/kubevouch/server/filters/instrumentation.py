"""Counts and times every request."""

from __future__ import annotations

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.metrics import Metrics
from kubevouch.server.request import Filter, Handler, Request, Result
from kubevouch.util.clock import Clock

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def instrumentation(metrics: Metrics, clock: Clock) -> Filter:
    """The filter for one server's metrics."""

    async def measure(request: Request, following: Handler) -> Result:
        begun = clock.monotonic()
        code = 500
        try:
            result = await following(request)
            code = result.status
            return result
        except APIStatusError as err:
            code = err.code
            raise
        finally:
            info = request.info
            if info is not None and not request.loopback:
                verb = info.verb.upper() if info.is_resource else request.method
                if not info.is_resource and verb not in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
                    verb = "other"
                scope = "" if not info.is_resource else "namespace" if info.namespace else "cluster"
                if info.name and info.verb not in ("list", "watch", "deletecollection"):
                    scope = "resource"
                known = code not in (404, 403, 401) or info.verb in _MUTATING
                labels = (
                    verb,
                    info.group if known else "",
                    info.version if known else "",
                    info.resource if known else "",
                    info.subresource if known else "",
                    scope,
                    "apiserver",
                    "All" if request.query.get("dryRun") else "",
                )
                metrics.request(labels, code, clock.monotonic() - begun, watch=info.verb == "watch")

    return measure
