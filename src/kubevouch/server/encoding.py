"""Results to bytes, each object at most once per media type.

An object's JSON body and protobuf message are cached on the stored object; lists join them, watch frames wrap them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kubevouch.machinery.codec import gojson, json_codec, protobuf, yamltext
from kubevouch.machinery.codec.object_codec import codec_of
from kubevouch.machinery.meta import ListMeta, ObjectMeta, PartialObjectMetadata, Status
from kubevouch.machinery.scheme import Resource
from kubevouch.registry.interface import Printer
from kubevouch.registry.reader import ListResult
from kubevouch.server import pieces
from kubevouch.server.negotiation import Negotiated, Transform
from kubevouch.server.watch_item import Bookmark, WatchItem
from kubevouch.storage.watchcache.objects import Stored
from kubevouch.storage.watchcache.resource_cache import Change
from kubevouch.util.worker import LARGE_BYTES, Share
from kubevouch.wellknown import INITIAL_EVENTS_END_ANNOTATION

# Frames are shared by all watchers of a resource: as many as they may be apart, and still get the same bytes.
FRAMES = 64
# With the stored values that they are made of. One may be above it.
FRAME_BYTES = 1 << 20
_META_GROUP = "meta.k8s.io"

Converter = Callable[[Any], Any]


def plain(obj: Any, api_version: str, kind: str, how: Negotiated) -> bytes:
    """A struct that is not stored."""
    if how.encoding == "protobuf":
        return protobuf.seal(api_version, kind, protobuf.codec_for(type(obj)).encode(obj))
    codec = codec_of(type(obj))
    return _text(codec.whole_json(codec.to_json(obj), kind, api_version), how)


def status(value: Status, how: Negotiated) -> bytes:
    return plain(value, "v1", "Status", how)


def _text(data: bytes, how: Negotiated) -> bytes:
    if how.encoding == "yaml":
        return yamltext.dumps(gojson.loads(data)).encode()
    return (json_codec.indent(data) if how.pretty else data) + b"\n"


def effort(stored: Stored[Any], how: Negotiated) -> int:
    """To encode the object is as dear as so many bytes of a body: a fourth of what it is to read, but for YAML."""
    return len(stored.raw) if how.encoding == "yaml" else len(stored.raw) // 4


class ObjectEncoder:
    """Writes objects of one served resource in every form it has."""

    def __init__(self, resource: Resource[Any], printer: Printer, from_storage: Converter | None = None) -> None:
        self.resource = resource
        self.printer = printer
        self._from_storage = from_storage
        self._codec = resource.codec
        self._metadata_codec = protobuf.codec_for(PartialObjectMetadata)
        self._json_form = ("json", resource.api_version)
        self._protobuf_form = ("protobuf", resource.api_version)
        self._frames: dict[tuple[object, ...], tuple[Stored[Any], Negotiated, bytes]] = {}
        self.frame_bytes = 0
        self._frames_coming: dict[tuple[object, ...], asyncio.Future[bytes]] = {}

    def view(self, obj: Any) -> Any:
        """The stored object in this resource's version."""
        return obj if self._from_storage is None else self._from_storage(obj)

    # -------------------------------------------------------------- one object

    def item_json(self, stored: Stored[Any]) -> bytes:
        """The object without kind and apiVersion, as it stands in lists."""
        return stored.encoded(self._json_form, lambda s: self._codec.to_json(self.view(s.obj)))

    def _message(self, stored: Stored[Any]) -> bytes:
        return stored.encoded(self._protobuf_form, lambda s: self._codec.to_message(self.view(s.obj)))

    @staticmethod
    def _metadata_json(stored: Stored[Any]) -> bytes:
        return stored.encoded("metadata/json", lambda s: json_codec.encode(s.obj.metadata))

    def _metadata_message(self, stored: Stored[Any]) -> bytes:
        return stored.encoded(
            "metadata/protobuf",
            lambda s: self._metadata_codec.encode(PartialObjectMetadata(metadata=s.obj.metadata)),
        )

    def _whole_json(self, stored: Stored[Any], transform: Transform) -> bytes:
        if transform.kind == "PartialObjectMetadata":
            return _partial_json(self._metadata_json(stored), transform.version)
        return self._codec.whole_json(self.item_json(stored), self.resource.kind, self.resource.api_version)

    def _envelope(self, stored: Stored[Any], transform: Transform) -> bytes:
        if transform.kind == "PartialObjectMetadata":
            return protobuf.seal(
                f"{_META_GROUP}/{transform.version}", "PartialObjectMetadata", self._metadata_message(stored)
            )
        return protobuf.seal(self.resource.api_version, self.resource.kind, self._message(stored))

    def one(self, stored: Stored[Any], how: Negotiated, now: dt.datetime, include: str = "Metadata") -> bytes:
        """A reply that is one object."""
        if how.transform.kind == "Table":
            meta = ListMeta(resource_version=stored.obj.metadata.resource_version)
            return _text(self._table([stored], meta, how.transform, now, include), how)
        if how.encoding == "protobuf":
            return self._envelope(stored, how.transform)
        return _text(self._whole_json(stored, how.transform), how)

    # -------------------------------------------------------------- lists

    def pieces(
        self, page: ListResult[Any], how: Negotiated, now: dt.datetime, include: str = "Metadata"
    ) -> Iterator[bytes]:
        """A reply that is a list, one piece after another; see ``server/pieces.py``."""
        meta = ListMeta(
            resource_version=str(page.revision or ""),
            continue_=page.continue_token,
            remaining_item_count=page.remaining,
        )
        transform = how.transform
        if transform.kind == "Table":
            head = self._table_head(meta, transform, columns=True)
            return pieces.document(head, "rows", page.items, lambda s: self._row(s, transform, now, include), how)
        partial = transform.kind == "PartialObjectMetadataList"
        api_version = f"{_META_GROUP}/{transform.version}" if partial else self.resource.api_version
        kind = transform.kind if partial else self.resource.list_kind
        if how.encoding == "protobuf":
            encoded = protobuf.length_delimited(1, protobuf.codec_for(ListMeta).encode(meta))
            body = self._metadata_message if partial else self._message
            return pieces.message(api_version, kind, encoded, page.items, body)
        head = json_codec.with_type_meta(b'{"metadata":' + json_codec.encode(meta) + b"}", kind, api_version)
        if not partial:
            return pieces.document(head, "items", page.items, self.item_json, how)
        return pieces.document(
            head, "items", page.items, lambda s: _partial_json(self._metadata_json(s), transform.version), how
        )

    def many(self, page: ListResult[Any], how: Negotiated, now: dt.datetime, include: str = "Metadata") -> bytes:
        """As :meth:`pieces`, at once: for lists that are not sent over the network."""
        return b"".join(self.pieces(page, how, now, include))

    # -------------------------------------------------------------- tables

    def _table(
        self, items: Sequence[Stored[Any]], meta: ListMeta, transform: Transform, now: dt.datetime, include: str,
        *, columns: bool = True,
    ) -> bytes:  # fmt: skip
        rows = b",".join(self._row(stored, transform, now, include) for stored in items)
        return self._table_head(meta, transform, columns=columns)[:-1] + b',"rows":[' + rows + b"]}"

    def _table_head(self, meta: ListMeta, transform: Transform, *, columns: bool) -> bytes:
        definitions = self._columns() if columns else b"null"
        return (
            b'{"kind":"Table","apiVersion":"meta.k8s.io/' + transform.version.encode() + b'","metadata":'
            + json_codec.encode(meta) + b',"columnDefinitions":' + definitions + b"}"
        )  # fmt: skip

    def _columns(self) -> bytes:
        return json_codec.encode(
            [
                {
                    "name": c.name,
                    "type": c.type,
                    "format": c.format,
                    "description": c.description,
                    "priority": c.priority,
                }
                for c in self.printer.columns
            ]
        )

    def _row(self, stored: Stored[Any], transform: Transform, now: dt.datetime, include: str) -> bytes:
        cells = json_codec.encode(list(self.printer.cells(stored.obj, now)))
        return b'{"cells":' + cells + b"," + self._row_object(stored, transform, include) + b"}"

    def _row_object(self, stored: Stored[Any], transform: Transform, include: str) -> bytes:
        if include == "None":
            return b'"object":null'
        if include == "Object":
            return b'"object":' + self._whole_json(stored, Transform())
        return b'"object":' + _partial_json(self._metadata_json(stored), transform.version)

    # -------------------------------------------------------------- watches

    def frames(
        self, items: Sequence[WatchItem], how: Negotiated, now: dt.datetime, include: str, *, first: bool
    ) -> bytes:
        """The frames of a batch. ``first``: no Table with columns was sent on this stream yet."""
        out = []
        for item in items:
            out.append(self._frame(item, how, now, include, columns=first))
            if not isinstance(item, Status):
                first = False
        return b"".join(out)

    async def dear_frames(
        self, items: Sequence[WatchItem], how: Negotiated, now: dt.datetime, include: str, share: Share, *, first: bool
    ) -> bytes:
        """As :meth:`frames`, where objects among them are large: their frames are made on the worker, once each."""
        out = []
        for item in items:
            if isinstance(item, Change) and effort(item.stored, how) > LARGE_BYTES:
                out.append(await self._dear_frame(item, how, now, include, share, columns=first))
            else:
                out.append(self._frame(item, how, now, include, columns=first))
            if not isinstance(item, Status):
                first = False
        return b"".join(out)

    async def _dear_frame(
        self, item: Change[Any], how: Negotiated, now: dt.datetime, include: str, share: Share, *, columns: bool
    ) -> bytes:
        key = self._frame_key(item, how, now, include, columns=columns)
        known = self._frames.get(key)
        if known is not None:
            return known[2]
        coming = self._frames_coming.get(key)
        if coming is None:
            share.is_large = True
            making = share.compute(partial(self._change_frame, item, how, now, include, columns=columns))
            coming = self._frames_coming[key] = asyncio.ensure_future(making)

            def came(frame: asyncio.Future[bytes]) -> None:
                del self._frames_coming[key]
                if not frame.cancelled() and frame.exception() is None:
                    self._keep_frame(key, item, how, frame.result())

            coming.add_done_callback(came)
        # Others may wait for it too, when the watch that asked first has ended.
        return await asyncio.shield(coming)

    @staticmethod
    def _frame_key(
        item: Change[Any], how: Negotiated, now: dt.datetime, include: str, *, columns: bool
    ) -> tuple[object, ...]:
        if how.transform.kind == "Table":
            # Ages count whole seconds, so whoever hears of a change in the same one is told the same.
            return (id(item.stored), item.type, id(how), include, columns, now.replace(microsecond=0))
        return (id(item.stored), item.type, id(how))

    def _keep_frame(self, key: tuple[object, ...], item: Change[Any], how: Negotiated, frame: bytes) -> None:
        size = len(frame) + len(item.stored.raw)
        while self._frames and (len(self._frames) >= FRAMES or self.frame_bytes + size > FRAME_BYTES):
            stored, _, oldest = self._frames.pop(next(iter(self._frames)))
            self.frame_bytes -= len(oldest) + len(stored.raw)
        self.frame_bytes += size
        # With what its key identifies, so that nothing else can get the same identity while it is here.
        self._frames[key] = (item.stored, how, frame)

    def _frame(self, item: WatchItem, how: Negotiated, now: dt.datetime, include: str, *, columns: bool) -> bytes:
        if isinstance(item, Status):
            return _wrap("ERROR", status(item, how).rstrip(b"\n") if how.encoding == "json" else status(item, how), how)
        if isinstance(item, Bookmark):
            return self._bookmark(item, how, columns=columns)
        key = self._frame_key(item, how, now, include, columns=columns)
        known = self._frames.get(key)
        if known is not None:
            return known[2]
        frame = self._change_frame(item, how, now, include, columns=columns)
        self._keep_frame(key, item, how, frame)
        return frame

    def _change_frame(
        self, item: Change[Any], how: Negotiated, now: dt.datetime, include: str, *, columns: bool
    ) -> bytes:
        if how.transform.kind == "Table":
            meta = ListMeta(resource_version=item.stored.obj.metadata.resource_version)
            now = now.replace(microsecond=0)
            return _wrap(item.type, self._table([item.stored], meta, how.transform, now, include, columns=columns), how)
        return self._object_frame(item, how)

    def _object_frame(self, item: Change[Any], how: Negotiated) -> bytes:
        if how.encoding == "protobuf":
            return protobuf.watch_frame(item.type, self._envelope(item.stored, how.transform))
        return _wrap(item.type, self._whole_json(item.stored, how.transform), how)

    def _bookmark(self, item: Bookmark, how: Negotiated, *, columns: bool) -> bytes:
        annotations = {INITIAL_EVENTS_END_ANNOTATION: "true"} if item.initial_end else {}
        meta = ObjectMeta(resource_version=str(item.revision), annotations=annotations)
        empty = self._codec.blank(meta, self.resource.kind, self.resource.api_version)
        stored = Stored("", empty, item.revision, b"")
        if how.transform.kind == "Table":
            listed = ListMeta(resource_version=str(item.revision))
            return _wrap("BOOKMARK", self._table([stored], listed, how.transform, _NEVER, "", columns=columns), how)
        encoder = ObjectEncoder(self.resource, self.printer) if self._from_storage else self
        return encoder._object_frame(Change("MODIFIED", stored, item.revision), how).replace(
            b"MODIFIED", b"BOOKMARK", 1
        )


_NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _wrap(event_type: str, body: bytes, how: Negotiated) -> bytes:
    if how.encoding == "protobuf":
        return protobuf.watch_frame(event_type, body)
    return b'{"type":"' + event_type.encode() + b'","object":' + body + b"}\n"


def _partial_json(metadata: bytes, version: str) -> bytes:
    body = b'{"metadata":' + metadata + b"}"
    return json_codec.with_type_meta(body, "PartialObjectMetadata", f"{_META_GROUP}/{version}")
