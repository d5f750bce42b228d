"""Objects to request bodies and answers to objects, in both encodings. No I/O.

CodecError                the bytes are not what the resource is made of
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from kubevouch.client.frames import Framer, JSONFramer, ProtobufFramer
from kubevouch.client.interface import EventType, WatchEvent
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.meta import ListMeta, Object, Status
from kubevouch.machinery.scheme import Resource

T = TypeVar("T", bound=Object)

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"

# The groups that are compiled into kube-apiserver. Others come from custom resource definitions or aggregated servers,
# which need not read protobuf.
_BUILT_IN_GROUPS = frozenset({"", "apps", "autoscaling", "batch", "policy"})


class CodecError(ValueError):
    """The bytes are not what was asked for; ``str()`` says what they are."""


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header, without parameters and in lower case."""
    return content_type.partition(";")[0].strip().lower()


def speaks_protobuf(resource: Resource[Any]) -> bool:
    """True for kinds that every kube-apiserver reads and writes as protobuf."""
    built_in = resource.group in _BUILT_IN_GROUPS or resource.group.endswith(".k8s.io")
    return built_in and resource.codec.schema is not None


def encode(resource: Resource[T], obj: T, *, as_protobuf: bool) -> tuple[str, bytes]:
    """Content-Type and body of an object."""
    if as_protobuf:
        raw = resource.codec.to_message(obj)
        return PROTOBUF, protobuf.seal(resource.api_version, resource.kind, raw)
    codec = resource.codec
    return JSON, codec.whole_json(codec.to_json(codec.bare(obj)), resource.kind, resource.api_version)


def encode_json(api_version: str, kind: str, struct: msgspec.Struct) -> bytes:
    """A document with its kind and apiVersion. ``struct`` itself may carry them or not."""
    bare = msgspec.structs.replace(struct, kind="", api_version="")
    return json_codec.with_type_meta(json_codec.encode(bare), kind, api_version)


class _TypeMeta(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - the wire's name


class _JSONList(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


class _JSONEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_type_meta_decoder = msgspec.json.Decoder(_TypeMeta)
_list_decoder = msgspec.json.Decoder(_JSONList)
_event_decoder = msgspec.json.Decoder(_JSONEvent)


def decode(resource: Resource[T], body: bytes, content_type: str) -> T:
    """The object of an answer or an event. Raises :class:`CodecError`."""
    if media_type(content_type) == PROTOBUF:
        opened = _unseal(body)
        _expect(resource, resource.kind, opened.api_version, opened.kind)
        return _protobuf_item(resource, opened.raw)
    obj = _json_item(resource, body)
    _expect(resource, resource.kind, obj.api_version, obj.kind)
    return resource.codec.bare(obj)


def verify_identity(resource: Resource[Any], obj: Object, name: str, namespace: str) -> None:
    """Raises :class:`CodecError` unless ``obj`` is the one that was asked for; an empty text asks for nothing.

    Whoever reads an object by its name shows it under that name, decides about it, and writes it back to the path of
    the name that the object says.
    """
    got = obj.metadata
    if (name and got.name != name) or (namespace and got.namespace != namespace):
        raise CodecError(
            f"{resource.kind} {_qualified(got.namespace, got.name)!r}, expected {_qualified(namespace, name)!r}"
        )


def _qualified(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class ListParts(msgspec.Struct, frozen=True):
    """A list before its items are decoded, so that a long one can be decoded in slices."""

    metadata: ListMeta
    items: list[Any]
    decode_item: Callable[[Any], Any]


def split_list(resource: Resource[T], body: bytes, content_type: str) -> ListParts:
    """The parts of a list answer. Raises :class:`CodecError`, and so does ``decode_item``."""
    if media_type(content_type) == PROTOBUF:
        opened = _unseal(body)
        _expect(resource, resource.list_kind, opened.api_version, opened.kind)
        try:
            raw_metadata, items = protobuf.split_list(opened.raw)
            metadata = protobuf.codec_for(ListMeta).decode(raw_metadata)
        except protobuf.ProtobufError as err:
            raise CodecError(f"a list that cannot be read: {err}") from err
        return ListParts(metadata, items, lambda raw: _protobuf_item(resource, raw))
    try:
        listing = _list_decoder.decode(body)
        metadata = json_codec.decode(bytes(listing.metadata), ListMeta)
    except (ValueError, RecursionError) as err:
        raise CodecError(f"a list that cannot be read: {err}") from err
    _expect(resource, resource.list_kind, listing.apiVersion, listing.kind)
    return ListParts(metadata, listing.items or [], lambda raw: resource.codec.bare(_json_item(resource, bytes(raw))))


def framer_for(content_type: str, limit: int) -> Framer:
    """What cuts a watch of this Content-Type into frames. Raises :class:`CodecError` for one that is neither."""
    kind = media_type(content_type)
    if kind == PROTOBUF:
        return ProtobufFramer(limit)
    if kind == JSON:
        return JSONFramer(limit)
    raise CodecError(f"a watch as {content_type or 'nothing in particular'}")


def decode_event(resource: Resource[T], frame: bytes, content_type: str) -> WatchEvent[T]:
    """The event of a watch frame. Raises :class:`CodecError`."""
    if media_type(content_type) == PROTOBUF:
        try:
            word, body = protobuf.open_watch_event(frame)
        except protobuf.ProtobufError as err:
            raise CodecError(f"a watch event that cannot be read: {err}") from err
    else:
        try:
            event = _event_decoder.decode(frame)
        except (ValueError, RecursionError) as err:
            raise CodecError(f"a watch event that cannot be read: {err}") from err
        word, body = event.type, bytes(event.object)
    try:
        kind = EventType(word)
    except ValueError as err:
        raise CodecError(f"a watch event of type {word[:40]!r}") from err
    if kind is EventType.ERROR:
        status = decode_status(body)
        if status is None:
            raise CodecError("an ERROR event without a Status")
        return WatchEvent(kind, status=status)
    return WatchEvent(kind, decode(resource, body, content_type))


def decode_status(body: bytes) -> Status | None:
    """The Status in an answer, in whatever encoding it came, or None when it is something else.

    One of kube-apiserver's answers, the 504 of its timeout filter, is a Status without kind, apiVersion and
    Content-Type, so the body decides.
    """
    try:
        if body.startswith(protobuf.MAGIC):
            opened = protobuf.unseal(body)
            return protobuf.codec_for(Status).decode(opened.raw) if opened.kind == "Status" else None
        if body.lstrip()[:1] != b"{":
            return None
        status = json_codec.decode(body, Status)
    except (ValueError, RecursionError):
        return None
    if status.kind == "Status" or (not status.kind and status.status == "Failure" and status.code):
        return msgspec.structs.replace(status, kind="", api_version="")
    return None


def kind_of(body: bytes) -> str:
    """``apiVersion, Kind=…`` of any object, for messages; empty when there is none."""
    try:
        if body.startswith(protobuf.MAGIC):
            opened = protobuf.unseal(body)
            return f"{opened.api_version}, Kind={opened.kind}"
        meta = _type_meta_decoder.decode(body)
    except (ValueError, RecursionError):
        return ""
    return f"{meta.apiVersion}, Kind={meta.kind}" if meta.kind else ""


def _expect(resource: Resource[Any], kind: str, got_version: str, got_kind: str) -> None:
    if (got_version, got_kind) != (resource.api_version, kind):
        got = f"{got_kind or 'an object without a kind'} of {got_version or 'no version'}"
        raise CodecError(f"{got}, expected {kind} of {resource.api_version}")


def _unseal(body: bytes) -> protobuf.Opened:
    try:
        return protobuf.unseal(body)
    except protobuf.ProtobufError as err:
        raise CodecError(f"protobuf that cannot be read: {err}") from err


def _protobuf_item(resource: Resource[T], raw: bytes) -> T:
    try:
        return resource.codec.from_message(raw)
    except protobuf.ProtobufError as err:
        raise CodecError(f"a {resource.kind} that cannot be read: {err}") from err


def _json_item(resource: Resource[T], body: bytes) -> T:
    try:
        return resource.codec.from_json(body)
    except json_codec.UnmarshalError as err:
        raise CodecError(f"a {resource.kind} that cannot be read: {err}") from err
