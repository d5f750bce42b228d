"""Objects whose kind came at run time: metadata as everywhere, all else a JSON tree.

Source: k8s.io/apimachinery apis/meta/v1/unstructured, apiextensions-apiserver pkg/apiserver (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Protocol

import msgspec

from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.codec.json_codec import Decoded, UnmarshalError
from kubevouch.machinery.codec.object_codec import ObjectCodec, read_text, use_codec
from kubevouch.machinery.declaration import wire
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.writing import field_set, struct_compare, typed_tree
from kubevouch.machinery.writing.field_set import FieldSet
from kubevouch.machinery.writing.typed_tree import DEDUCED, MapType, MergeType

Tree = dict[str, Any]

_EXPONENT = re.compile(rb"[:,\[]-?[0-9.]+e")
_TYPE_META = ("kind", "apiVersion", "metadata")


class CustomObject(Object):
    """An object of a kind that no struct declares.

    ``content`` has the other members of the document; caches share it, so it is never changed in place. Unlike objects
    of declared kinds it says its kind and apiVersion in memory, too: the latter is the version of its content.
    """

    content: Annotated[dict[str, Any], wire(0)] = {}


class Cleaner(Protocol):
    """What a schema does to a document before anybody looks at it."""

    def clean(self, tree: Tree, *, stored: bool = False) -> list[str]:
        """Prune, drop nulls and default, in place; of what is stored, also drop what is malformed.

        Returns:
            The paths of the fields that nobody declared.

        Raises:
            UnmarshalError: an object inside of it is malformed; never with ``stored``.
        """
        ...


class CustomCodec(ObjectCodec[CustomObject]):
    """Of a custom kind of which no schema is known: as a client reads and writes it."""

    struct = CustomObject
    schema = None

    @property
    def merge_type(self) -> MapType:  # type: ignore[override]  # read only
        """Deduced from the values."""
        return _DEDUCED_OBJECT

    def cleaner(self, api_version: str) -> Cleaner | None:  # noqa: ARG002
        """The schema of a version; the codec's own for an empty text. None takes documents as they are."""
        return None

    def to_json(self, obj: CustomObject) -> bytes:
        """With kind and apiVersion: items of lists have them, too."""
        whole = {**obj.content, "apiVersion": obj.api_version, "kind": obj.kind, "metadata": obj.metadata}
        text = json_codec.encode_sorted(whole)
        # A number with an exponent, or a text that looks like one.
        return json_codec.encode_sorted(gojson.go_numbers(whole)) if _EXPONENT.search(text) else text

    def whole_json(self, item: bytes, kind: str, api_version: str) -> bytes:  # noqa: ARG002
        return item

    def from_json(self, data: bytes) -> CustomObject:
        try:
            tree = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as err:
            raise UnmarshalError(str(err)) from err
        if not isinstance(tree, dict):
            raise UnmarshalError(f"json: cannot unmarshal {json_codec.go_kind(tree)} into an object")
        return _object(tree, json_codec.convert(tree.get("metadata") or {}, ObjectMeta))

    def to_tree(self, obj: CustomObject) -> Tree:
        tree: Tree = msgspec.to_builtins(obj.content)
        return {"metadata": json_codec.to_builtins(obj.metadata), **tree}

    def from_tree(self, tree: Any) -> Decoded:
        """Numbers become what Go makes of them: int64 where they are integers within its range, else float64."""
        if not isinstance(tree, dict):
            raise UnmarshalError(f"json: cannot unmarshal {json_codec.go_kind(tree)} into Go value of type Object")
        repeated = gojson.duplicate_fields(tree)
        # What metadata has of depth are names of fields, up to twice as deep as they are.
        plain: Tree = {key: gojson.plain(value, 1) for key, value in tree.items() if key != "metadata"}
        given = tree.get("metadata")
        metadata = Decoded(ObjectMeta()) if given is None else _metadata(given)
        unknown = sorted(metadata.strict_errors)
        plain["metadata"] = given if isinstance(given, dict) else {}
        if (cleaner := self.cleaner("")) is not None:
            paths = cleaner.clean(plain)
            unknown += (f'unknown field "{path}"' for path in paths)
        return Decoded(_object(plain, metadata.value), [*repeated, *unknown])

    def to_message(self, obj: CustomObject) -> bytes:  # noqa: ARG002
        raise _no_protobuf()

    def from_message(self, raw: bytes) -> CustomObject:  # noqa: ARG002
        raise _no_protobuf()

    def to_value(self, obj: CustomObject, api_version: str, kind: str) -> bytes:  # noqa: ARG002
        return self.to_json(obj) + b"\n"

    def from_value(self, value: bytes, api_version: str, kind: str) -> CustomObject:  # noqa: ARG002
        """In the version in which it was stored; what has become invalid in its metadata is dropped."""
        tree = read_text(value)
        stored_in = tree.get("apiVersion")
        if isinstance(stored_in, str) and (cleaner := self.cleaner(stored_in)) is not None:
            cleaner.clean(tree, stored=True)
        return _object(tree, _stored_metadata(tree.get("metadata")))

    def bare(self, obj: CustomObject) -> CustomObject:
        return obj

    def blank(self, metadata: ObjectMeta, kind: str, api_version: str) -> CustomObject:
        return CustomObject(kind=kind, api_version=api_version, metadata=metadata)

    def compare(self, old: CustomObject, new: CustomObject) -> tuple[FieldSet, FieldSet]:
        changed, removed = struct_compare.compare(_Metadata(metadata=old.metadata), _Metadata(metadata=new.metadata))
        if old.content is new.content:
            return changed, removed
        below = typed_tree.compare(old.content, new.content, self.merge_type)
        return field_set.union(changed, below.changed), field_set.union(removed, below.removed)


class _Metadata(Object):
    """What is compared of an object besides its content."""


_META_TYPE: MergeType = typed_tree.merge_type(schema_of(ObjectMeta))
_STRING: MergeType = typed_tree.ScalarType("string")
_DEDUCED_OBJECT = MapType({"kind": _STRING, "apiVersion": _STRING, "metadata": _META_TYPE}, DEDUCED)


def _object(tree: Tree, metadata: ObjectMeta) -> CustomObject:
    content = {key: value for key, value in tree.items() if key not in _TYPE_META}
    kind, api_version = tree.get("kind"), tree.get("apiVersion")
    return CustomObject(
        kind=kind if isinstance(kind, str) else "",
        api_version=api_version if isinstance(api_version, str) else "",
        metadata=metadata,
        content=content,
    )


def _metadata(tree: Any) -> Decoded:
    return json_codec.from_tree(tree, ObjectMeta, "metadata")


def _stored_metadata(tree: Any) -> ObjectMeta:
    """Of a stored object; a generation of 0 is 1."""
    metadata = lenient_metadata(tree or {})
    return metadata if metadata.generation else msgspec.structs.replace(metadata, generation=1)


def lenient_metadata(tree: Any) -> ObjectMeta:
    """What can be read of stored metadata; fields that have become invalid are dropped."""
    try:
        return json_codec.convert(tree, ObjectMeta)
    except UnmarshalError:
        metadata = ObjectMeta()
    for name, value in tree.items() if isinstance(tree, dict) else ():
        try:
            one = _metadata({name: value}).value
        except UnmarshalError:
            continue
        changes = {each: getattr(one, each) for each in one.__struct_fields__ if getattr(one, each)}
        metadata = msgspec.structs.replace(metadata, **changes)
    return metadata


def _no_protobuf() -> UnmarshalError:
    return UnmarshalError("custom resources have no protobuf")


use_codec(CustomCodec())
