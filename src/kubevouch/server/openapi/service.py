"""``/openapi/v2`` and ``/openapi/v3`` over HTTP (kube-openapi pkg/handler, pkg/handler3; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial

from kubevouch.server import negotiation
from kubevouch.server.endpoints import Served
from kubevouch.server.openapi.documents import JSON, ROOT_V3, V2_PROTOBUF, Documents
from kubevouch.server.request import BytesResult, Request, Result

# "@" is no character for a media type, but clients still ask so.
V2_PROTOBUF_DEPRECATED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_TEXT = "text/plain; charset=utf-8"
_FOREVER = dt.timedelta(days=365)


class OpenAPI:
    """Serves the documents.

    Args:
        served: what they describe; what is built in has to be there before the first request.
        version_info: what ``/version`` answers.
    """

    def __init__(self, served: Served, version_info: Mapping[str, str]) -> None:
        self._documents = Documents(served, version_info)

    async def serve_v3(self, request: Request) -> Result:
        """The index, or the document that the path names."""
        current = await self._documents.current(request.received)
        path = request.target.path
        if path == ROOT_V3:
            return _index_reply(request, current.index, _http_date(current.at))
        vary = {"Vary": "Accept"}
        if not _choose(request, (JSON,)):
            return BytesResult(b"", "", 406, vary)
        name = path.removeprefix(f"{ROOT_V3}/")
        digest = current.digests.get(name)
        if digest is None:
            return BytesResult(b"", "", 404, vary)
        wanted = request.query.get("hash")
        if wanted and wanted != digest:
            target = f"{path}?hash={digest}"
            page = f'<a href="{target}">Moved Permanently</a>.\n\n'  # Go's http.Redirect
            found = vary | {"Location": target, "ETag": f'"{digest}"'}
            return BytesResult(page.encode(), "text/html; charset=utf-8", 301, found)
        if wanted:
            vary |= {"Cache-Control": "public, immutable", "Expires": _http_date(request.received + _FOREVER)}
        make = partial(self._documents.v3, current, name)
        return await _reply(request, make, digest, _http_date(current.at), JSON, vary)

    async def serve_v2(self, request: Request) -> Result:
        """The one document of version 2."""
        vary = {"Vary": "Accept"}
        media = _choose(request, (JSON, V2_PROTOBUF_DEPRECATED, V2_PROTOBUF))
        if not media:
            return BytesResult(b"", "", 406, vary)
        if media == V2_PROTOBUF_DEPRECATED:
            media = V2_PROTOBUF
        current = await self._documents.current(request.received)
        digest = await self._documents.v2_digest(current, media)
        make = partial(self._documents.v2, current, media)
        return await _reply(request, make, digest, _http_date(current.at), media, vary)


# ------------------------------------------------------------------ replies


def _index_reply(request: Request, index: bytes, made_at: str) -> Result:
    """Kubernetes sends no ETag here, and JSON as text; clients ask again by date."""
    headers = {"Last-Modified": made_at}
    if _unchanged_since(request, made_at):
        return BytesResult(b"", "", 304, headers)
    return BytesResult(index, _TEXT, 200, headers)


async def _reply(
    request: Request,
    make: Callable[[], Awaitable[bytes]],
    digest: str,
    made_at: str,
    media: str,
    headers: dict[str, str],
) -> Result:
    etag = f'"{digest}"'
    headers = headers | {"ETag": etag, "Last-Modified": made_at}
    known = request.headers.get("If-None-Match", "")
    unchanged = _matches(known, etag) if known else _unchanged_since(request, made_at)
    if unchanged:
        return BytesResult(b"", "", 304, headers)
    return BytesResult(await make(), media, 200, headers)


def _http_date(moment: dt.datetime) -> str:
    return format_datetime(moment.astimezone(dt.UTC), usegmt=True)


# ------------------------------------------------------------------ headers


def _choose(request: Request, offered: tuple[str, ...]) -> str:
    """The offered media type that the client likes best, or nothing. A wildcard stands for the first."""
    clauses = []
    for part in (request.headers.get("Accept") or "*/*")[: negotiation.MAX_ACCEPT_BYTES].split(","):
        media, *params = [piece.strip() for piece in part.lower().split(";")]
        clauses.append((_quality(params), media))
    for quality, media in sorted(clauses, key=lambda clause: -clause[0]):
        if quality <= 0:
            break
        if media in ("*/*", "application/*"):
            return offered[0]
        if media in offered:
            return media
    return ""


def _quality(params: list[str]) -> float:
    for param in params:
        key, _, value = param.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _matches(header: str, etag: str) -> bool:
    tags = [part.strip().removeprefix("W/") for part in header.split(",")]
    return "*" in tags or etag in tags


def _unchanged_since(request: Request, made_at: str) -> bool:
    since = request.headers.get("If-Modified-Since", "")
    if not since:
        return False
    try:
        return parsedate_to_datetime(made_at) <= parsedate_to_datetime(since)
    except (TypeError, ValueError, OverflowError):
        return False
