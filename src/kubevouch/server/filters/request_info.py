"""Parses what the request is about."""

from __future__ import annotations

from kubevouch.machinery import errors
from kubevouch.server import request_info as parser
from kubevouch.server.request import Handler, Request, Result


async def request_info(request: Request, following: Handler) -> Result:
    """Raises ``APIStatusError`` (405) for CONNECT: whoever asks for a tunnel would take any 200 for one."""
    if request.method == "CONNECT":
        raise errors.method_not_allowed()
    if request.info is None:
        request.info = parser.parse(request.method, request.path, request.query)
    return await following(request)
