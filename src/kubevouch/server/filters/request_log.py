"""A log line for each request, as kube-apiserver's ``-v=3`` writes them (apiserver pkg/server/httplog, 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import format_duration
from kubevouch.server.request import Filter, Handler, Request, Result, WatchResult
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("server")


def request_log(clock: Clock) -> Filter:
    """Requests of the own controllers make no line: they never were HTTP. A watch makes its line at its end."""

    async def tell(request: Request, following: Handler) -> Result:
        if request.loopback:
            return await following(request)
        begun = clock.monotonic()

        def line(code: int) -> None:
            latency = format_duration(dt.timedelta(seconds=clock.monotonic() - begun))
            log.info("HTTP", **_fields(request), latency=latency, resp=code)

        try:
            result = await following(request)
        except APIStatusError as err:
            line(err.code)
            raise
        if isinstance(result, WatchResult):
            result.ended.append(lambda: line(200))
        else:
            line(result.status)
        return result

    return tell


def _fields(request: Request) -> dict[str, str]:
    info = request.info
    return {
        "logger": "httplog",
        "verb": (info.verb if info is not None and info.is_resource else request.method).upper(),
        "URI": f"{request.path}?{request.query.raw}" if request.query.raw else request.path,
        "userAgent": request.user_agent,
        "audit-ID": request.audit_id,
        "srcIP": request.credentials.source,
    }
