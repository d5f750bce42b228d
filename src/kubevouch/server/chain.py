"""What runs, in order, before a request reaches a handler: one readable list."""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.server.request import Filter, Handler, Request, Result


def chain(filters: Sequence[Filter], handler: Handler) -> Handler:
    """``handler`` behind ``filters``; the first filter sees the request first."""
    for link in reversed(filters):
        handler = _linked(link, handler)
    return handler


def _linked(link: Filter, following: Handler) -> Handler:
    async def call(request: Request) -> Result:
        return await link(request, following)

    return call
