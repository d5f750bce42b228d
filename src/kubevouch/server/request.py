"""A request on its way through the chain, and what a handler gives back."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from kubevouch.authentication.interface import Authentication, Credentials, UserInfo
from kubevouch.registry.reader import ListResult
from kubevouch.server.encoding import ObjectEncoder
from kubevouch.server.negotiation import Negotiated
from kubevouch.server.query import Query
from kubevouch.server.request_info import RequestInfo
from kubevouch.server.watch_item import WatchItem
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.util.worker import Share

BodyReader = Callable[[int], Awaitable[bytes]]


async def no_body(_limit: int) -> bytes:
    """The body of a request that has none."""
    return b""


_NONE_SHOWN = Credentials()


class Request(Struct):
    """One request.

    With ``loopback`` the in-process client has preset ``authentication``, a named identity; with ``typed`` also ``obj``
    and ``info``, in place of a body and its media types. Over HTTPS the chain fills them. Nothing outside this process
    can set either.
    """

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    received: dt.datetime
    credentials: Credentials = _NONE_SHOWN
    read_body: BodyReader = no_body
    obj: Any = None
    info: RequestInfo | None = None
    authentication: Authentication | None = None
    audit_id: str = ""
    negotiated: Negotiated | None = None
    loopback: bool = False
    typed: bool = False
    warnings: list[str] = []
    annotations: dict[str, str] = {}
    # Its part of the time for large work; the chain sets it.
    share: Share = msgspec.field(default_factory=Share)
    # What the links of the chain add to the answer.
    reply_headers: Mapping[str, str] = {}
    # Set while the request is audited: handlers tell it what the body held.
    audit: BodyRecorder | None = None

    @property
    def user(self) -> UserInfo:
        """Raises ``RuntimeError`` before authentication: nothing may act on a request without a user."""
        if self.authentication is None:
            raise RuntimeError("the request is not authenticated yet")
        return self.authentication.user

    @property
    def target(self) -> RequestInfo:
        if self.info is None:
            raise RuntimeError("the request is not parsed yet")
        return self.info

    @property
    def user_agent(self) -> str:
        return self.headers.get("User-Agent", "")


class BodyRecorder(Protocol):
    """Wants to know what was sent."""

    body: bytes

    def sent(self, obj: Any, api_version: str, kind: str) -> None:
        """The decoded object of the body."""
        ...


class Result:
    """What a handler gives back; the edge turns it into bytes, the loopback client into objects."""

    __slots__ = ()
    status: int


@dataclass(slots=True)
class ObjectResult(Result):
    """One object of a served resource. ``encoder`` knows its version and its table columns."""

    stored: Stored[Any]
    encoder: ObjectEncoder
    status: int = 200


@dataclass(slots=True)
class ListingResult(Result):
    """One page of a served resource."""

    page: ListResult[Any]
    encoder: ObjectEncoder
    status: int = 200


@dataclass(slots=True)
class PlainResult(Result):
    """A struct that is not stored: a Status, a review, discovery."""

    obj: Any
    api_version: str
    kind: str
    status: int = 200


@dataclass(slots=True)
class BytesResult(Result):
    """Finished bytes: health, version, metrics, OpenAPI. Without a content type nothing is said of one."""

    body: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


NO_SNIFFING: Mapping[str, str] = {"X-Content-Type-Options": "nosniff"}
"""Stands on what Go's ``http.Error`` writes, and on what authorization refuses."""


def plain_text(text: str, status: int) -> BytesResult:
    """An error that is no Status, as Go's ``http.Error`` writes it; ``text`` ends with a newline."""
    return BytesResult(text.encode(), "text/plain; charset=utf-8", status, NO_SNIFFING)


NOT_FOUND = plain_text("404 page not found\n", 404)


@dataclass(slots=True)
class WatchResult(Result):
    """A stream of batches. Whoever takes it calls :meth:`close`, also when nothing was read.

    ``ended`` is called then: a generator that was never started does not run its ``finally``. ``end`` has the batches
    end in order, whoever takes them and wherever they are.
    """

    batches: AsyncGenerator[list[WatchItem], None]
    encoder: ObjectEncoder
    status: int = 200
    ended: list[Callable[[], None]] = field(default_factory=list)
    end: Callable[[], None] = lambda: None

    async def close(self) -> None:
        """End the watch."""
        try:
            await self.batches.aclose()
        finally:
            callbacks, self.ended = self.ended, []
            for callback in callbacks:
                callback()


Handler = Callable[[Request], Awaitable[Result]]
Filter = Callable[[Request, Handler], Awaitable[Result]]
