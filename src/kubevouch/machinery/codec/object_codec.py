"""All forms of the objects of one kind behind one door: JSON, trees, protobuf, the stored value, and what differs.

Registry, handlers, admission and clients reach a kind's forms through :attr:`Resource.codec` and so need not know
whether its fields are declared by a struct or by a schema that came at run time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeVar

import msgspec

from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.codec.encrypted_values import expect_plain
from kubevouch.machinery.codec.json_codec import Decoded, UnmarshalError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.schema import StructSchema, schema_of
from kubevouch.machinery.writing import struct_compare, typed_tree
from kubevouch.machinery.writing.field_set import FieldSet
from kubevouch.machinery.writing.typed_tree import MapType

T = TypeVar("T", bound=msgspec.Struct)
Tree = dict[str, Any]
Convert = Callable[[Any], Any]


class OtherKindError(ValueError):
    """A stored value is of another kind or version than belongs in its place."""


class ObjectCodec(ABC, Generic[T]):
    """Reads and writes objects of one kind. Objects in memory, unless a method says otherwise.

    Attributes:
        struct: the Python type of the objects.
        schema: their declared fields; None for a kind that has neither protobuf nor strategic merge patches.
        merge_type: how server-side apply merges their trees.
    """

    struct: type[T]
    schema: StructSchema | None
    merge_type: MapType

    @abstractmethod
    def to_json(self, obj: T) -> bytes:
        """As it stands in a list."""

    @abstractmethod
    def whole_json(self, item: bytes, kind: str, api_version: str) -> bytes:
        """The document of what :meth:`to_json` gave."""

    @abstractmethod
    def from_json(self, data: bytes) -> T:
        """From a document of this program or a well-behaved server. Raises ``json_codec.UnmarshalError``."""

    @abstractmethod
    def to_tree(self, obj: T) -> Tree:
        """The JSON tree without kind and apiVersion, for whoever asks to keep and to change."""

    @abstractmethod
    def from_tree(self, tree: Any) -> Decoded:
        """The object in a tree that came from outside, and what a strict reader has against it.

        Raises:
            UnmarshalError: a value does not fit, in Go's words.
        """

    @abstractmethod
    def to_message(self, obj: T) -> bytes:
        """The protobuf message, without its envelope. Raises ``ProtobufError`` where there is none."""

    @abstractmethod
    def from_message(self, raw: bytes) -> T:
        """Raises ``ProtobufError``."""

    @abstractmethod
    def to_value(self, obj: T, api_version: str, kind: str) -> bytes:
        """What a store keeps."""

    @abstractmethod
    def from_value(self, value: bytes, api_version: str, kind: str) -> T:
        """From what a store has kept, whoever wrote it: in any form in which Kubernetes reads this kind.

        Raises:
            EncryptedValueError, OtherKindError, ValueError
        """

    def also_read(
        self, api_version: str, codec: ObjectCodec[Any] | None = None, convert: Convert | None = None
    ) -> None:
        """Read values in another version of the kind, too.

        Args:
            codec: of that version; None for one with the same fields.
            convert: from that version.
        """
        raise NotImplementedError

    @abstractmethod
    def bare(self, obj: T) -> T:
        """The object as it stands in memory, of one that was just read."""

    @abstractmethod
    def blank(self, metadata: ObjectMeta, kind: str, api_version: str) -> T:
        """An object that has nothing else."""

    @abstractmethod
    def compare(self, old: T, new: T) -> tuple[FieldSet, FieldSet]:
        """The fields that ``new`` has anew or otherwise, and those that only ``old`` has."""


class StructCodec(ObjectCodec[T]):
    """Of a kind that is declared as a struct."""

    schema: StructSchema

    def __init__(self, struct: type[T]) -> None:
        self.struct = struct
        self._versions: dict[str, tuple[ObjectCodec[Any], Convert]] = {}

    def __getattr__(self, name: str) -> Any:
        """What few kinds are asked for, made when it first is: a millisecond each, and a server has sixty."""
        made: Any
        if name == "schema":
            made = schema_of(self.struct)
        elif name == "merge_type":
            made = typed_tree.merge_type(self.schema)
        elif name == "_protobuf":
            # Whoever only names kinds has no need of it: the credential plug-in has 150 ms to start.
            made = import_module("kubevouch.machinery.codec.protobuf")
        elif name == "_messages":
            made = self._protobuf.codec_for(self.struct)
        else:
            raise AttributeError(name)
        setattr(self, name, made)
        return made

    def to_json(self, obj: T) -> bytes:
        return json_codec.encode(obj)

    def whole_json(self, item: bytes, kind: str, api_version: str) -> bytes:
        return json_codec.with_type_meta(item, kind, api_version)

    def from_json(self, data: bytes) -> T:
        return json_codec.decode(data, self.struct)

    def to_tree(self, obj: T) -> Tree:
        tree: Tree = json_codec.to_builtins(obj)
        return tree

    def from_tree(self, tree: Any) -> Decoded:
        return json_codec.from_tree(tree, self.struct)

    def to_message(self, obj: T) -> bytes:
        raw: bytes = self._messages.encode(obj)
        return raw

    def from_message(self, raw: bytes) -> T:
        obj: T = self._messages.decode(raw)
        return obj

    def to_value(self, obj: T, api_version: str, kind: str) -> bytes:
        value: bytes = self._protobuf.seal(api_version, kind, self._messages.encode(obj))
        return value

    def from_value(self, value: bytes, api_version: str, kind: str) -> T:
        if not value.startswith(self._protobuf.MAGIC):
            return self._from_text(value, api_version, kind)
        opened = self._protobuf.unseal(value)
        obj: T
        if opened.api_version == api_version and opened.kind == kind:
            obj = self._messages.decode(opened.raw)
            return obj
        codec, convert = self._stored_in(opened.api_version, opened.kind, api_version, kind)
        obj = convert(codec.from_message(opened.raw))
        return obj

    def _from_text(self, value: bytes, api_version: str, kind: str) -> T:
        """Kubernetes writes text for few kinds, and reads it for all: JSON, and YAML too."""
        made: Any = self.struct
        if not value:
            blank: T = made()
            return blank
        return self._read_tree(read_text(value), api_version, kind)

    def _read_tree(self, tree: Tree, api_version: str, kind: str) -> T:
        found = tree.get("apiVersion"), tree.get("kind")
        codec, convert = (self, _same) if found == (api_version, kind) else self._stored_in(*found, api_version, kind)
        try:
            read = json_codec.convert(tree, codec.struct)
        except UnmarshalError:
            read = codec.from_tree(tree).value  # null for a value and the like
        obj: T = convert(codec.bare(read))
        return obj

    def also_read(
        self, api_version: str, codec: ObjectCodec[Any] | None = None, convert: Convert | None = None
    ) -> None:
        self._versions[api_version] = codec or self, convert or _same

    def _stored_in(
        self, found_version: object, found_kind: object, api_version: str, kind: str
    ) -> tuple[ObjectCodec[Any], Convert]:
        found = self._versions.get(str(found_version)) if found_kind == kind else None
        if found is None:
            raise OtherKindError(f"got {found_version}, Kind={found_kind}, expected {api_version}, Kind={kind}")
        return found

    def bare(self, obj: T) -> T:
        """Objects in memory carry no kind and apiVersion: there the type says it."""
        read: Any = obj
        return msgspec.structs.replace(obj, kind="", api_version="") if read.kind or read.api_version else obj

    def blank(self, metadata: ObjectMeta, kind: str, api_version: str) -> T:  # noqa: ARG002
        make: Any = self.struct
        made: T = make(metadata=metadata)
        return made

    def compare(self, old: T, new: T) -> tuple[FieldSet, FieldSet]:
        return struct_compare.compare(old, new)


def _same(obj: Any) -> Any:
    return obj


def read_text(value: bytes) -> Tree:
    """The tree of a stored value that is JSON or YAML. Raises ``ValueError``."""
    expect_plain(value)
    try:
        tree = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        tree = _read_patiently(value)
    if not isinstance(tree, dict):
        raise UnmarshalError(f"json: cannot unmarshal {json_codec.go_kind(tree)} into an object")
    return tree


def _read_patiently(value: bytes) -> Any:
    try:
        return gojson.loads(value)
    except gojson.JSONSyntaxError:
        # Hardly ever: who only names kinds has no need of it.
        return import_module("kubevouch.machinery.codec.yamltext").loads(value)[0]


_codecs: dict[type[Any], ObjectCodec[Any]] = {}


def use_codec(codec: ObjectCodec[Any]) -> None:
    """Of a type that is not declared field by field."""
    _codecs[codec.struct] = codec


def codec_of(struct: type[T]) -> ObjectCodec[T]:
    """The codec of a declared kind."""
    found = _codecs.get(struct)
    if found is None:
        found = _codecs[struct] = StructCodec(struct)
    return found
