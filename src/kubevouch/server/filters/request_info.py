"""Parses what the request is about."""

from __future__ import annotations

from kubevouch.server import request_info as parser
from kubevouch.server.request import Handler, Request, Result


async def request_info(request: Request, following: Handler) -> Result:
    if request.info is None:
        request.info = parser.parse(request.method, request.path, request.query)
    return await following(request)
