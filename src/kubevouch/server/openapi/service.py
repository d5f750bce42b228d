"""``/openapi/v2`` and ``/openapi/v3`` over HTTP (kube-openapi pkg/handler, pkg/handler3; Kubernetes 1.36)."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial

from kubevouch.machinery.codec import json_codec
from kubevouch.server import negotiation
from kubevouch.server.endpoints import Served
from kubevouch.server.negotiation import JSON
from kubevouch.server.openapi import gnostic, v2, v3
from kubevouch.server.request import BytesResult, Request, Result
from kubevouch.util.worker import beside_loop

ROOT_V3 = "/openapi/v3"

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# "@" is no character for a media type, but clients still ask so.
V2_PROTOBUF_DEPRECATED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_TEXT = "text/plain; charset=utf-8"
_FOREVER = dt.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class _Document:
    """Finished bytes; ``digest`` is the hash in URLs and, quoted, the ETag."""

    body: bytes
    digest: str

    @classmethod
    def of(cls, body: bytes) -> _Document:
        return cls(body, hashlib.sha512(body).hexdigest().upper())

    @property
    def etag(self) -> str:
        return f'"{self.digest}"'


@dataclass(frozen=True, slots=True)
class _Made:
    """The documents of one version of OpenAPI, by path (3) or media type (2), and when they were made."""

    documents: Mapping[str, _Document]
    at: str


class OpenAPI:
    """Serves the documents. Those of a version are made at the first request for one of them, and then kept.

    Args:
        served: read when documents are made, so that everything may be registered until then.
        version_info: what ``/version`` answers.
    """

    def __init__(self, served: Served, version_info: Mapping[str, str]) -> None:
        self._served = served
        self._version_info = version_info
        self._lock = asyncio.Lock()
        self._made: dict[_Build, _Made] = {}

    async def serve_v3(self, request: Request) -> Result:
        """The index, or the document that the path names."""
        made = await self._documents(_build_v3, request)
        path = request.target.path
        if path == ROOT_V3:
            return _index_reply(request, made)
        vary = {"Vary": "Accept"}
        if not _choose(request, (JSON,)):
            return BytesResult(b"", "", 406, vary)
        document = made.documents.get(path)
        if document is None:
            return BytesResult(b"", "", 404, vary)
        wanted = request.query.get("hash")
        if not wanted:
            return _reply(request, document, made.at, JSON, vary)
        if wanted != document.digest:
            target = _url(path, document)
            page = f'<a href="{target}">Moved Permanently</a>.\n\n'  # Go's http.Redirect
            found = vary | {"Location": target, "ETag": document.etag}
            return BytesResult(page.encode(), "text/html; charset=utf-8", 301, found)
        lasting = {"Cache-Control": "public, immutable", "Expires": _http_date(request.received + _FOREVER)}
        return _reply(request, document, made.at, JSON, vary | lasting)

    async def serve_v2(self, request: Request) -> Result:
        """The one document of version 2."""
        vary = {"Vary": "Accept"}
        media = _choose(request, (JSON, V2_PROTOBUF_DEPRECATED, V2_PROTOBUF))
        if not media:
            return BytesResult(b"", "", 406, vary)
        if media == V2_PROTOBUF_DEPRECATED:
            media = V2_PROTOBUF
        made = await self._documents(_build_v2, request)
        return _reply(request, made.documents[media], made.at, media, vary)

    async def _documents(self, build: _Build, request: Request) -> _Made:
        made = self._made.get(build)
        if made is not None:
            return made
        async with self._lock:
            if build not in self._made:
                # Long enough to delay other requests, hence a thread.
                documents = await asyncio.to_thread(beside_loop, partial(build, self._served, self._version_info))
                self._made[build] = _Made(documents, _http_date(request.received))
        return self._made[build]


# ------------------------------------------------------------------ making


def _build_v3(served: Served, version_info: Mapping[str, str]) -> dict[str, _Document]:
    """The documents and, at the root, their index."""
    documents: dict[str, _Document] = {}
    index: dict[str, dict[str, str]] = {}
    for name, tree in v3.build(served, version_info).by_name.items():
        path = f"{ROOT_V3}/{name}"
        documents[path] = document = _Document.of(json_codec.encode(tree))
        index[name] = {"serverRelativeURL": _url(path, document)}
    documents[ROOT_V3] = _Document.of(json_codec.encode({"paths": index}))
    return documents


def _build_v2(served: Served, version_info: Mapping[str, str]) -> dict[str, _Document]:
    tree = v2.build(v3.build(served, version_info))
    return {JSON: _Document.of(json_codec.encode(tree)), V2_PROTOBUF: _Document.of(gnostic.encode(tree))}


_Build = Callable[[Served, Mapping[str, str]], dict[str, _Document]]


def _url(path: str, document: _Document) -> str:
    return f"{path}?hash={document.digest}"


# ------------------------------------------------------------------ replies


def _index_reply(request: Request, made: _Made) -> Result:
    """Kubernetes sends no ETag here, and JSON as text; clients ask again by date."""
    headers = {"Last-Modified": made.at}
    if _unchanged_since(request, made.at):
        return BytesResult(b"", "", 304, headers)
    return BytesResult(made.documents[ROOT_V3].body, _TEXT, 200, headers)


def _reply(request: Request, document: _Document, made_at: str, media: str, headers: dict[str, str]) -> Result:
    headers = headers | {"ETag": document.etag, "Last-Modified": made_at}
    known = request.headers.get("If-None-Match", "")
    unchanged = _matches(known, document.etag) if known else _unchanged_since(request, made_at)
    if unchanged:
        return BytesResult(b"", "", 304, headers)
    return BytesResult(document.body, media, 200, headers)


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
