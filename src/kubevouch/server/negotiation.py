"""Which media type a reply gets (apiserver endpoints/handlers/negotiation and go-restful's routing; 1.36)."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from kubevouch.machinery import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
_STREAMS = (JSON, PROTOBUF)
MAX_ACCEPT_BYTES = 4096

Encoding = Literal["json", "yaml", "protobuf"]
_ENCODINGS: dict[str, Encoding] = {JSON: "json", YAML: "yaml", PROTOBUF: "protobuf"}


class Transform(msgspec.Struct, frozen=True):
    """A form other than the object's own: Table or PartialObjectMetadata(List), at a version of meta.k8s.io."""

    kind: str = ""
    version: str = "v1"

    def __bool__(self) -> bool:
        return bool(self.kind)


NO_TRANSFORM = Transform()


class Negotiated(msgspec.Struct, frozen=True):
    """How to write the reply."""

    encoding: Encoding
    transform: Transform = NO_TRANSFORM
    stream: bool = False
    pretty: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type; JSON streams carry no ``;stream=watch``, protobuf streams do."""
        media = {"json": JSON, "yaml": YAML, "protobuf": PROTOBUF}[self.encoding]
        return f"{media};stream=watch" if self.stream and self.encoding == "protobuf" else media

    def without_transform(self) -> Negotiated:
        """The same encoding for a Status, which has no other form."""
        return Negotiated(self.encoding, NO_TRANSFORM, self.stream, self.pretty)


class _Clause(msgspec.Struct, frozen=True):
    media: str
    params: tuple[tuple[str, str], ...]
    quality: float

    def param(self, name: str) -> str:
        return next((value for key, value in self.params if key == name), "")


@lru_cache(maxsize=256)
def _clauses(header: str) -> tuple[_Clause, ...]:
    """The clauses of an Accept header, best first; equal ones keep their order."""
    found = []
    for part in header.split(","):
        pieces = [piece.strip() for piece in part.split(";")]
        params, quality = [], 1.0
        for piece in pieces[1:]:
            key, _, value = piece.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
            elif key:
                params.append((key.strip(), value.strip()))
        if pieces[0]:
            found.append(_Clause(pieces[0].lower(), tuple(params), quality))
    return tuple(sorted(found, key=lambda clause: -clause.quality))


Use = Literal["object", "list", "watch", "error"]


def check_routed(accept: str, *, streams: bool) -> None:
    """What go-restful refuses before a handler is found: it knows exact types and ``*/*`` only.

    Raises:
        APIStatusError: 406 with the router's text.
    """
    if not accept:
        return
    for clause in _clauses(accept[:MAX_ACCEPT_BYTES]):
        if clause.media == "*/*" or clause.media in ACCEPTED:
            return
    produced = list(ACCEPTED)
    if streams:
        produced += [f"{JSON};stream=watch", f"{PROTOBUF};stream=watch"]
    raise errors.not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(produced)}", routed=True)


def negotiate(
    accept: str, use: Use, *, tables: bool = True, pretty: bool = False, go_type: str = "", protobuf: bool = True
) -> Negotiated:
    """The first acceptable clause of the header's first ``MAX_ACCEPT_BYTES``.

    Args:
        protobuf: whether the objects themselves can be written in it; their metadata always can.

    Raises:
        APIStatusError: 406 when there is none.
    """
    return _negotiated(accept[:MAX_ACCEPT_BYTES], use, tables, pretty, go_type, protobuf)


@lru_cache(maxsize=256)
def _negotiated(accept: str, use: Use, tables: bool, pretty: bool, go_type: str, protobuf: bool) -> Negotiated:
    streams = use == "watch"
    offered = _STREAMS if streams else ACCEPTED
    if not accept:
        return Negotiated("json", stream=streams, pretty=pretty)
    for clause in _clauses(accept):
        media = JSON if clause.media in ("*/*", "application/*") else clause.media
        if media not in offered:
            continue
        transform = _transform(clause, media, use, tables=tables, go_type=go_type)
        if transform is None or (not protobuf and media == PROTOBUF and not transform):
            continue
        return Negotiated(_ENCODINGS[media], transform, stream=streams, pretty=pretty)
    names = ", ".join(f"{media};stream=watch" if streams else media for media in offered)
    raise errors.not_acceptable(f"only the following media types are accepted: {names}")


def _transform(clause: _Clause, media: str, use: Use, *, tables: bool, go_type: str) -> Transform | None:
    """The transform a clause asks for; None when this server can't or won't do it."""
    kind = clause.param("as")
    if not kind:
        return NO_TRANSFORM
    if use == "error" or clause.param("g") != "meta.k8s.io" or clause.param("v") not in ("v1", "v1beta1"):
        return None
    version = clause.param("v")
    if kind == "Table":
        return Transform(kind, version) if tables and media != PROTOBUF else None
    if kind == "PartialObjectMetadata":
        if use == "list":
            raise errors.not_acceptable(
                f"you requested PartialObjectMetadata, but the requested object is a list ({go_type})"
            )
        return Transform(kind, version)
    if kind == "PartialObjectMetadataList":
        if use != "list":
            raise errors.not_acceptable(
                f"you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})"
            )
        return Transform(kind, version)
    return None


def for_error(accept: str, *, pretty: bool = False) -> Negotiated:
    """How to write a Status: transforms are passed over, and JSON is the last resort."""
    try:
        return negotiate(accept, "error", pretty=pretty)
    except errors.APIStatusError:
        return Negotiated("json", pretty=pretty)


def wants_pretty(query_value: str, user_agent: str) -> bool:
    """People with curl, wget or a browser get indented JSON."""
    if query_value:
        return query_value.lower() in ("true", "1")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))
