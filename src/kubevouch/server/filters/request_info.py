"""Parses what the request is about."""

from __future__ import annotations

from kubevouch.machinery import errors
from kubevouch.machinery.text import gotext
from kubevouch.server import request_info as parser
from kubevouch.server.request import Handler, Request, Result


async def request_info(request: Request, following: Handler) -> Result:
    """Raises ``APIStatusError``: 405 for CONNECT, since whoever asks for a tunnel would take any 200 for one; 400 for a
    ``timeout`` that is none (apiserver endpoints/filters/request_deadline.go, Kubernetes 1.36)."""
    if request.method == "CONNECT":
        raise errors.method_not_allowed()
    if request.info is None:
        request.info = parser.parse(request.method, request.path, request.query)
    timeout = request.query.get("timeout")
    if timeout and request.info.verb != "watch":
        try:
            gotext.parse_duration(timeout)
        except ValueError as err:
            raise errors.bad_request(f"invalid timeout specified in the request URL - {err}") from None
    return await following(request)
