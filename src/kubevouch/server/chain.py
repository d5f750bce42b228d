"""What runs, in order, before a request reaches a handler: one readable list."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kubevouch.server.request import Filter, Handler, Request, Result


def chain(filters: Sequence[Filter], handler: Handler) -> Handler:
    """``handler`` behind ``filters``; the first filter sees the request first."""
    for link in reversed(filters):
        handler = _linked(link, handler)
    return handler


def _linked(link: Filter, following: Handler) -> Handler:
    # No coroutine of its own: each would stand in every await below it.
    def call(request: Request) -> Awaitable[Result]:
        return link(request, following)

    return call
