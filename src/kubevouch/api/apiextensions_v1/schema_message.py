"""JSONSchemaProps as protobuf.

What is nested is bytes in these messages, which is the same on the wire: the library's own recursion ends at a hundred
messages, and a property of a property is four.

Source: generated.proto of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from kubevouch.api.apiextensions_v1.schema_fields import (
    FIELDS,
    KEPT,
    ExternalDocumentation,
    Kind,
    ValidationRule,
)
from kubevouch.machinery.codec import gojson, json_codec, protobuf
from kubevouch.machinery.declaration import Struct
from kubevouch.structural.schema import MAX_DEPTH, TooDeep

_GO = "JSONSchemaProps"
_Proto = descriptor_pb2.FieldDescriptorProto
_PROTO_TYPES = {
    "string": _Proto.TYPE_STRING, "bool": _Proto.TYPE_BOOL, "int64": _Proto.TYPE_INT64, "double": _Proto.TYPE_DOUBLE,
    "strings": _Proto.TYPE_STRING,
}  # fmt: skip
_REPEATED = frozenset({"jsons", "strings", "schemas", "rules"})
_MAPS = frozenset({"schema_map", "or_strings_map"})
_PACKAGE = "kubevouch_schema"
_BY_NUMBER = {field.number: (name, field) for name, field in FIELDS.items()}


@cache
def _messages() -> dict[str, Any]:
    """The classes of JSONSchemaProps, of JSON, and of what holds a schema or something else."""
    file = descriptor_pb2.FileDescriptorProto(name="schema_props.proto", package=_PACKAGE, syntax="proto2")
    props = file.message_type.add(name=_GO)
    for field in FIELDS.values():
        name = f"f{field.number}"
        if field.kind in _MAPS:
            entry = props.nested_type.add(name=f"F{field.number}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Proto.TYPE_STRING, label=_Proto.LABEL_OPTIONAL)
            entry.field.add(name="value", number=2, type=_Proto.TYPE_BYTES, label=_Proto.LABEL_OPTIONAL)
            props.field.add(
                name=name, number=field.number, type=_Proto.TYPE_MESSAGE, label=_Proto.LABEL_REPEATED,
                type_name=f".{_PACKAGE}.{_GO}.{entry.name}",
            )  # fmt: skip
        else:
            label = _Proto.LABEL_REPEATED if field.kind in _REPEATED else _Proto.LABEL_OPTIONAL
            kind = _PROTO_TYPES.get(field.kind, _Proto.TYPE_BYTES)
            props.field.add(name=name, number=field.number, type=kind, label=label)
    for name, first, second, label in (
        ("JSON", _Proto.TYPE_BYTES, None, _Proto.LABEL_OPTIONAL),
        ("OrBool", _Proto.TYPE_BOOL, _Proto.TYPE_BYTES, _Proto.LABEL_OPTIONAL),
        ("OrArray", _Proto.TYPE_BYTES, _Proto.TYPE_BYTES, _Proto.LABEL_REPEATED),
    ):
        holder = file.message_type.add(name=name)
        holder.field.add(name="first", number=1, type=first, label=_Proto.LABEL_OPTIONAL)
        if second is not None:
            holder.field.add(name="second", number=2, type=second, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in (_GO, "JSON", "OrBool", "OrArray")
    }


def _bytes_of(msg: Any) -> bytes:
    data: bytes = msg.SerializeToString(deterministic=True)
    return data


def pack(tree: dict[str, Any]) -> bytes:
    """The message of a schema's tree."""
    msg = _messages()[_GO]()
    for name, field in FIELDS.items():
        target = f"f{field.number}"
        value = tree.get(name)
        if value is None:
            # Go writes what is no pointer even when it is empty.
            if field.kind in ("string", "bool") and not field.pointer:
                setattr(msg, target, "" if field.kind == "string" else False)
        elif field.kind in _MAPS:
            held = getattr(msg, target)
            for key, item in value.items():
                held[key] = pack(item) if field.kind == "schema_map" else _pack_either(item)
        elif field.kind in _REPEATED:
            getattr(msg, target).extend([_PACKERS.get(field.kind, _same)(item) for item in value])
        else:
            setattr(msg, target, _PACKERS.get(field.kind, _same)(value))
    return _bytes_of(msg)


def _same(value: Any) -> Any:
    return value


def _pack_json(value: Any) -> bytes:
    return _bytes_of(_messages()["JSON"](first=json_codec.encode_in_order(value)))


def _pack_or_bool(value: Any) -> bytes:
    holder = _messages()["OrBool"](first=value is not False)
    if isinstance(value, dict):
        holder.second = pack(value)
    return _bytes_of(holder)


def _pack_either(value: Any) -> bytes:
    holder = _messages()["OrArray"]()
    if isinstance(value, dict):
        holder.first = pack(value)
    else:
        holder.second.extend(item.encode() if isinstance(item, str) else pack(item) for item in value)
    return _bytes_of(holder)


def _packer(struct: type[Struct]) -> Callable[[Any], bytes]:
    return lambda value: protobuf.codec_for(struct).encode(msgspec.convert(value, struct))


_PACKERS: dict[str, Callable[[Any], Any]] = {
    "json": _pack_json, "jsons": _pack_json, "schema": pack, "schemas": pack, "or_bool": _pack_or_bool,
    "or_array": _pack_either, "documentation": _packer(ExternalDocumentation), "rules": _packer(ValidationRule),
}  # fmt: skip


def _parsed(name: str, data: bytes) -> Any:
    msg = _messages()[name]()
    msg.ParseFromString(data)
    return msg


def unpack(data: bytes) -> dict[str, Any]:
    """The tree in a schema's message. Raises ``ProtobufError``."""
    try:
        return _unpack(data, 0)
    except (message.DecodeError, msgspec.DecodeError, ValueError) as err:
        raise protobuf.ProtobufError(str(err)) from err


def _unpack(data: bytes, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise TooDeep
    tree: dict[str, Any] = {}
    for descriptor, held in _parsed(_GO, data).ListFields():
        name, field = _BY_NUMBER[descriptor.number]
        if field.kind == "schema_map":
            tree[name] = {key: _unpack(held[key], depth + 1) for key in sorted(held)}
        elif field.kind == "or_strings_map":
            tree[name] = {key: _unpack_either(held[key], depth + 1, strings=True) for key in sorted(held)}
        elif field.kind in _REPEATED:
            tree[name] = [_unpacked(item, field.kind, depth + 1) for item in held]
        elif held or field.pointer or field.kind in KEPT:
            tree[name] = _unpacked(held, field.kind, depth + 1)
    return tree


def _unpacked(value: Any, kind: Kind, depth: int) -> Any:
    if kind == "double":
        return gojson.plain(value)
    if kind in ("json", "jsons"):
        return gojson.plain(msgspec.json.decode(_parsed("JSON", value).first or b"null"))
    if kind in ("schema", "schemas"):
        return _unpack(value, depth)
    if kind == "or_bool":
        holder = _parsed("OrBool", value)
        return _unpack(holder.second, depth) if holder.HasField("second") else holder.first
    if kind == "or_array":
        return _unpack_either(value, depth, strings=False)
    if kind == "documentation":
        return json_codec.to_builtins(protobuf.codec_for(ExternalDocumentation).decode(value))
    if kind == "rules":
        return json_codec.to_builtins(protobuf.codec_for(ValidationRule).decode(value))
    return value


def _unpack_either(data: bytes, depth: int, *, strings: bool) -> Any:
    holder = _parsed("OrArray", data)
    if holder.second:
        return [item.decode() if strings else _unpack(item, depth) for item in holder.second]
    return _unpack(holder.first, depth)
