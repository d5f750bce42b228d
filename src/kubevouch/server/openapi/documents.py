"""What the documents are by now: those of what is built in, made once, and those of kinds that come and go.

A kind's documents are made when somebody asks for them. Until then a digest of what its definition says stands for
them, in hashes and tags: a write to one of five hundred definitions makes one digest anew, and no document.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from kubevouch.machinery.codec import json_codec
from kubevouch.registry.apiextensions.custom_resources import ServedKindVersion
from kubevouch.server.endpoints import Served
from kubevouch.server.openapi import gnostic, v2, v3
from kubevouch.server.openapi.custom import CustomDocuments, document_of
from kubevouch.server.openapi.schemas import Tree
from kubevouch.util.worker import beside_loop, elsewhere

T = TypeVar("T")

ROOT_V3 = "/openapi/v3"
JSON = "application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

# Of documents of kinds that came at run time, compressed to about a tenth: some thousand kinds of usual size.
MAX_KEPT_BYTES = 16 * 1024 * 1024
# Of usual size they take some 40 ms.
_SLICE = 8
_SECOND = dt.timedelta(seconds=1)


class _Kind(NamedTuple):
    version: ServedKindVersion
    digest: bytes


class _Piece(NamedTuple):
    """What a kind, or all that is built in, adds to the document of version 2."""

    paths: bytes
    definitions: bytes


class _BuiltIn(msgspec.Struct, frozen=True):
    """The documents of version 3 and their digests, by name."""

    documents: dict[str, bytes]
    digests: dict[str, str]
    custom: CustomDocuments


class _BuiltInV2(msgspec.Struct, frozen=True):
    frame: Tree
    pieces: dict[str, _Piece]
    digests: dict[str, bytes]


class Current(msgspec.Struct, frozen=True):
    """The documents at some moment.

    Args:
        digests: of the documents of version 3, by name; hexadecimal.
        index: of version 3.
        at: when they became what they are, a second later than what they were before at least: clients ask by date,
            which has no parts of seconds.
    """

    changes: int
    digests: Mapping[str, str]
    index: bytes
    at: dt.datetime
    kinds: Mapping[str, Sequence[_Kind]]


class Documents:
    """Makes them.

    Args:
        served: what is built in is read at the first request for any of them.
        version_info: what ``/version`` answers.
    """

    def __init__(self, served: Served, version_info: Mapping[str, str]) -> None:
        self._served = served
        self._version_info = version_info
        self._lock = asyncio.Lock()
        self._built_in: _BuiltIn | None = None
        self._built_in_v2: _BuiltInV2 | None = None
        self._current: Current | None = None
        self._kinds: dict[tuple[str, str, str], _Kind] = {}
        self._kept = Kept(MAX_KEPT_BYTES)

    async def current(self, now: dt.datetime) -> Current:
        """What the documents are now."""
        known = self._current
        if known is not None and known.changes == self._served.changes:
            return known
        async with self._lock:
            known = self._current
            if known is None or known.changes != self._served.changes:
                known = self._current = await self._look(now, known)
        return known

    async def v3(self, current: Current, name: str) -> bytes:
        """A document of version 3; ``name`` is one of ``current.digests``."""
        built_in = await self._all_built_in()
        document = built_in.documents.get(name)
        if document is not None:
            return document
        versions = [kind.version for kind in current.kinds[name]]

        def make() -> bytes:
            return json_codec.encode(built_in.custom.v3(versions))

        return await elsewhere(partial(self._kept.get, ("v3", current.digests[name]), make))

    async def v2_digest(self, current: Current, media: str) -> str:
        """Stands for the document of version 2."""
        built_in = (await self._all_built_in_v2()).digests[media]
        kinds = b"".join(kind.digest for name in sorted(current.kinds) for kind in current.kinds[name])
        return hashlib.sha512(built_in + kinds).hexdigest().upper()

    async def v2(self, current: Current, media: str) -> bytes:
        """The document of version 2, in one of its forms."""
        custom = (await self._all_built_in()).custom
        built_in = await self._all_built_in_v2()
        kinds = [kind for name in sorted(current.kinds) for kind in current.kinds[name]]

        pieces = [built_in.pieces[media]]
        for some in _slices(kinds):
            pieces += await elsewhere(partial(self._pieces, custom, some, media))
        assemble = v2.assemble if media == JSON else gnostic.assemble
        paths, definitions = [each.paths for each in pieces], [each.definitions for each in pieces]
        return await elsewhere(partial(assemble, built_in.frame, paths, definitions))

    # -------------------------------------------------------------- what is built in

    async def _all_built_in(self) -> _BuiltIn:
        if self._built_in is None:
            served = self._served.built_in()
            make = partial(_make_built_in, served, self._version_info)
            self._built_in = await asyncio.to_thread(beside_loop, make)
        return self._built_in

    async def _all_built_in_v2(self) -> _BuiltInV2:
        async with self._lock:
            if self._built_in_v2 is None:
                make = partial(_make_built_in_v2, self._served.built_in(), self._version_info)
                self._built_in_v2 = await asyncio.to_thread(beside_loop, make)
        return self._built_in_v2

    # -------------------------------------------------------------- what comes and goes

    async def _look(self, now: dt.datetime, before: Current | None) -> Current:
        built_in = await self._all_built_in()
        changes, versions = self._served.changes, self._served.customs()
        known, kinds = self._kinds, {}
        fresh = []
        for version in versions:
            kind = known.get(_key(version))
            if kind is not None and kind.version is version:
                kinds[_key(version)] = kind
            else:
                fresh.append(version)
        for some in _slices(fresh):
            for version, digest in zip(some, await elsewhere(partial(_digests, built_in.custom, some)), strict=True):
                kinds[_key(version)] = _Kind(version, digest)
        self._kinds = kinds
        by_name: dict[str, list[_Kind]] = {}
        for key in sorted(kinds):
            by_name.setdefault(document_of(kinds[key].version), []).append(kinds[key])
        digests = dict(built_in.digests)
        for name, members in by_name.items():
            digests[name] = hashlib.sha512(b"".join(kind.digest for kind in members)).hexdigest().upper()
        if before is not None and before.digests == digests:
            return Current(changes, before.digests, before.index, before.at, by_name)
        index = {name: {"serverRelativeURL": f"{ROOT_V3}/{name}?hash={digest}"} for name, digest in digests.items()}
        at = now.replace(microsecond=0)
        if before is not None:
            at = max(at, before.at + _SECOND)
        return Current(changes, digests, json_codec.encode({"paths": index}), at, by_name)

    def _pieces(self, custom: CustomDocuments, kinds: Sequence[_Kind], media: str) -> list[_Piece]:
        return [self._piece(custom, kind, media) for kind in kinds]

    def _piece(self, custom: CustomDocuments, kind: _Kind, media: str) -> _Piece:
        trees: list[tuple[dict[str, Tree], dict[str, Tree]]] = []

        def made() -> tuple[dict[str, Tree], dict[str, Tree]]:
            if not trees:
                items, definitions = custom.v2(kind.version)
                trees.append((v2.path_items(items), definitions))
            return trees[0]

        paths, definitions = (v2.entries, v2.entries) if media == JSON else (gnostic.paths, gnostic.definitions)
        digest = kind.digest.hex()
        return _Piece(
            self._kept.get((f"{media} paths", digest), lambda: paths(made()[0])),
            self._kept.get((f"{media} definitions", digest), lambda: definitions(made()[1])),
        )


class Kept:
    """Documents that were made, compressed; the least lately asked for go first. For one thread at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def get(self, key: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return zlib.decompress(known)
        body = make()
        packed = zlib.compress(body, 1)
        if len(packed) <= self._limit:
            self._kept[key] = packed
            self._size += len(packed)
        while self._size > self._limit:
            self._size -= len(self._kept.popitem(last=False)[1])
        return body


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many as the worker takes at a time, between which others have their turn."""
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]


def _key(version: ServedKindVersion) -> tuple[str, str, str]:
    kind = version.owner.kind
    return kind.group, version.version.name, kind.plural


def _digests(custom: CustomDocuments, versions: Sequence[ServedKindVersion]) -> list[bytes]:
    return [custom.digest(version) for version in versions]


def _make_built_in(served: Served, version_info: Mapping[str, str]) -> _BuiltIn:
    trees = v3.build(served, version_info).by_name
    documents = {name: json_codec.encode(tree) for name, tree in trees.items()}
    digests = {name: hashlib.sha512(body).hexdigest().upper() for name, body in documents.items()}
    return _BuiltIn(documents, digests, CustomDocuments(served.scheme))


def _make_built_in_v2(served: Served, version_info: Mapping[str, str]) -> _BuiltInV2:
    frame = v2.build(v3.build(served, version_info))
    items, trees = frame.pop("paths"), frame.pop("definitions")
    pieces = {
        JSON: _Piece(v2.entries(items), v2.entries(trees)),
        V2_PROTOBUF: _Piece(gnostic.paths(items), gnostic.definitions(trees)),
    }
    digests = {media: hashlib.sha512(piece.paths + piece.definitions).digest() for media, piece in pieces.items()}
    return _BuiltInV2(frame, pieces, digests)
