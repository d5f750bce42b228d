"""Structs to Kubernetes' protobuf and back.

Real message classes are built from the declarations, one file descriptor a struct, on first use. Presence follows Go's
generated marshallers (Kubernetes 1.36): a pointer that is nil is not written, every other scalar and struct is, even
when it is empty; bytes are there when there are any. A reader takes what is absent for zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Generic, NewType, TypeVar, cast

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from kubevouch.machinery.declaration import IntOrString, Quantity, RawJSON
from kubevouch.machinery.schema import (
    FieldSchema,
    ListSchema,
    MapSchema,
    ScalarSchema,
    StructSchema,
    TypeSchema,
    schema_of,
)
from kubevouch.machinery.text.times import ZERO_SECONDS, MicroTime, Time

S = TypeVar("S", bound=msgspec.Struct)

MAGIC = b"k8s\x00"

Descriptor = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "kubevouch"
_SCALAR_TYPES = {
    "string": Descriptor.TYPE_STRING, "bytes": Descriptor.TYPE_BYTES, "bool": Descriptor.TYPE_BOOL,
    "int32": Descriptor.TYPE_INT32, "int64": Descriptor.TYPE_INT64,
}  # fmt: skip
_MESSAGE_SCALARS = {
    "time": "Time",
    "microtime": "Time",
    "quantity": "Quantity",
    "intorstring": "IntOrString",
    "json": "Raw",
}

_pool = descriptor_pool.DescriptorPool()


class ProtobufError(ValueError):
    """The bytes are not the message they claim to be."""


class ProtobufCodec(msgspec.Struct, Generic[S], frozen=True):
    """Both directions for one struct: the bare message, without envelope or TypeMeta."""

    encode: Callable[[S], bytes]
    decode: Callable[[bytes], S]


_codecs: dict[type[msgspec.Struct], ProtobufCodec[Any]] = {}


def codec_for(struct: type[S]) -> ProtobufCodec[S]:
    """The codec of a declared struct. ``decode`` raises :class:`ProtobufError`."""
    found = _codecs.get(struct)
    if found is None:
        found = _codecs[struct] = _make_codec(struct)
    return found


def _make_codec(struct: type[S]) -> ProtobufCodec[S]:
    schema = schema_of(struct)
    fill = _filler(schema)
    make = _maker(schema)
    message_class = _message_class(schema)

    def encode(obj: S) -> bytes:
        msg = message_class()
        fill(msg, obj)
        return msg.SerializeToString(deterministic=True)

    def decode(data: bytes) -> S:
        msg = message_class()
        try:
            msg.ParseFromString(data)
            return cast("S", make(msg))
        except (message.DecodeError, ValueError, OverflowError) as err:
            raise ProtobufError(str(err)) from err

    return ProtobufCodec(encode, decode)


# ------------------------------------------------------------------ descriptors


def _new_file(name: str) -> descriptor_pb2.FileDescriptorProto:
    """Kubernetes' files are proto2, which has strings that are not UTF-8 come out as bytes; this refuses them."""
    file = descriptor_pb2.FileDescriptorProto(
        name=name, package=_PACKAGE, syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    file.options.features.repeated_field_encoding = descriptor_pb2.FeatureSet.EXPANDED
    return file


@cache
def _support_file() -> str:
    file = _new_file("support.proto")
    for name, fields in {
        "Time": [("seconds", 1, "int64"), ("nanos", 2, "int32")],
        "Quantity": [("string", 1, "string")],
        "IntOrString": [("type", 1, "int64"), ("intVal", 2, "int32"), ("strVal", 3, "string")],
        "Raw": [("raw", 1, "bytes")],
    }.items():
        msg = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            msg.field.add(name=field_name, number=number, type=_SCALAR_TYPES[kind], label=Descriptor.LABEL_OPTIONAL)
    values = file.message_type.add(name="Values")
    values.field.add(name="items", number=1, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_REPEATED)
    _pool.Add(file)
    return file.name


def _full_name(schema: StructSchema) -> str:
    return f"{schema.type.__module__.replace('.', '_')}_{schema.go_name}"


@cache
def _message_class(schema: StructSchema) -> type[message.Message]:
    _descriptor_file(schema)
    descriptor = _pool.FindMessageTypeByName(f"{_PACKAGE}.{_full_name(schema)}")
    return message_factory.GetMessageClass(descriptor)


@cache
def _descriptor_file(schema: StructSchema) -> str:
    name = _full_name(schema)
    file = _new_file(f"{name}.proto")
    dependencies = {_support_file()}
    msg = file.message_type.add(name=name)
    for item in _wire_fields(schema):
        holder, path = _holder(msg, item)
        _add_field(holder, path, item, dependencies)
    file.dependency.extend(sorted(dependencies))
    _pool.Add(file)
    return file.name


def _wire_fields(schema: StructSchema) -> list[FieldSchema]:
    return [item for item in schema.fields if item.number]


def _holder(msg: descriptor_pb2.DescriptorProto, item: FieldSchema) -> tuple[descriptor_pb2.DescriptorProto, str]:
    """The message that has the field, made when it is the first in it, and its name with those around it."""
    path = msg.name
    for number in item.inside:
        inner = next((nested for nested in msg.nested_type if nested.name == f"Inside{number}"), None)
        if inner is None:
            inner = msg.nested_type.add(name=f"Inside{number}")
            msg.field.add(
                name=f"inside{number}", number=number, type=Descriptor.TYPE_MESSAGE, label=Descriptor.LABEL_OPTIONAL,
                type_name=f".{_PACKAGE}.{path}.{inner.name}",
            )  # fmt: skip
        msg, path = inner, f"{path}.{inner.name}"
    return msg, path


def _add_field(msg: descriptor_pb2.DescriptorProto, path: str, item: FieldSchema, dependencies: set[str]) -> None:
    kind = item.type
    if isinstance(kind, MapSchema):
        entry = msg.nested_type.add(name=f"Entry{item.number}")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
        value = entry.field.add(name="value", number=2, label=Descriptor.LABEL_OPTIONAL)
        _set_type(value, kind.value, dependencies)
        msg.field.add(
            name=item.proto_name, number=item.number, type=Descriptor.TYPE_MESSAGE, label=Descriptor.LABEL_REPEATED,
            type_name=f".{_PACKAGE}.{path}.{entry.name}",
        )  # fmt: skip
        return
    repeated = isinstance(kind, ListSchema) and not kind.wrapped
    field = msg.field.add(
        name=item.proto_name,
        number=item.number,
        label=Descriptor.LABEL_REPEATED if repeated else Descriptor.LABEL_OPTIONAL,
    )
    _set_type(field, kind.item if isinstance(kind, ListSchema) and repeated else kind, dependencies)


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: TypeSchema, dependencies: set[str]) -> None:
    if isinstance(kind, ScalarSchema) and kind.kind in _SCALAR_TYPES:
        field.type = _SCALAR_TYPES[kind.kind]
        return
    if isinstance(kind, ScalarSchema) and kind.type is not None:
        # A message that reads itself: the same on the wire.
        field.type = Descriptor.TYPE_BYTES
        return
    field.type = Descriptor.TYPE_MESSAGE
    if isinstance(kind, ScalarSchema):
        field.type_name = f".{_PACKAGE}.{_MESSAGE_SCALARS[kind.kind]}"
    elif isinstance(kind, StructSchema):
        dependencies.add(_descriptor_file(kind))
        field.type_name = f".{_PACKAGE}.{_full_name(kind)}"
    elif isinstance(kind, ListSchema) and kind.wrapped:
        field.type_name = f".{_PACKAGE}.Values"
    else:
        raise TypeError(f"protobuf has no form for {kind}")


# ------------------------------------------------------------------ compiled converters
#
# One straight-line function a struct and direction. Compiling them, as dataclasses does, makes a conversion three
# times as fast as walking the schema for every object (benchmarks/codec.py).

Filler = Callable[[Any, Any], None]
Maker = Callable[[Any], Any]


def _fill_time(msg: Any, value: Time) -> None:
    # Go: the zero time is an empty message.
    if value.seconds != ZERO_SECONDS:
        msg.seconds = value.seconds
        msg.nanos = 0
    else:
        msg.SetInParent()


def _fill_microtime(msg: Any, value: MicroTime) -> None:
    seconds, micros = divmod(value.micros, 1_000_000)
    if seconds != ZERO_SECONDS:
        msg.seconds = seconds
        msg.nanos = micros * 1000
    else:
        msg.SetInParent()


def _fill_quantity(msg: Any, value: Quantity) -> None:
    msg.string = value.text


def _fill_int_or_string(msg: Any, value: IntOrString) -> None:
    name = value.value if isinstance(value.value, str) else ""
    number = value.value if isinstance(value.value, int) else 0
    msg.type, msg.intVal, msg.strVal = int(isinstance(value.value, str)), number, name


def _fill_raw(msg: Any, value: RawJSON) -> None:
    msg.raw = value.raw


def _fill_values(msg: Any, value: list[str]) -> None:
    msg.SetInParent()
    msg.items.extend(value)


def _make_time(msg: Any) -> Time | None:
    seconds = msg.seconds
    return Time(seconds) if seconds or msg.HasField("seconds") or msg.HasField("nanos") else None


def _make_microtime(msg: Any) -> MicroTime | None:
    if msg.HasField("seconds") or msg.HasField("nanos"):
        return MicroTime(msg.seconds * 1_000_000 + msg.nanos // 1000)
    return None


def _make_quantity(msg: Any) -> Quantity:
    # One that is not set is zero, as in Go.
    return Quantity.parse(msg.string or "0")


def _make_int_or_string(msg: Any) -> IntOrString:
    return IntOrString(msg.strVal if msg.type else msg.intVal)


def _make_raw(msg: Any) -> RawJSON:
    return RawJSON(msg.raw)


def _make_values(msg: Any) -> list[str]:
    return list(msg.items)


_SCALAR_FILLERS: dict[str, Filler] = {
    "time": _fill_time, "microtime": _fill_microtime, "quantity": _fill_quantity,
    "intorstring": _fill_int_or_string, "json": _fill_raw,
}  # fmt: skip
_SCALAR_MAKERS: dict[str, Maker] = {
    "time": _make_time, "microtime": _make_microtime, "quantity": _make_quantity,
    "intorstring": _make_int_or_string, "json": _make_raw,
}  # fmt: skip


def _is_plain(kind: TypeSchema) -> bool:
    return isinstance(kind, ScalarSchema) and kind.kind in _SCALAR_TYPES


def _filler_of(kind: TypeSchema) -> Filler:
    if isinstance(kind, StructSchema):
        return _filler(kind)
    if isinstance(kind, ListSchema):
        return _fill_values
    if isinstance(kind, ScalarSchema):
        return _SCALAR_FILLERS[kind.kind]
    raise TypeError(f"protobuf has no form for {kind}")


def _maker_of(kind: TypeSchema) -> Maker:
    if isinstance(kind, StructSchema):
        return _maker(kind)
    if isinstance(kind, ListSchema):
        return _make_values
    if isinstance(kind, ScalarSchema):
        return _SCALAR_MAKERS[kind.kind]
    raise TypeError(f"protobuf has no form for {kind}")


@cache
def _filler(schema: StructSchema) -> Filler:
    names: dict[str, object] = {}
    holders = dict.fromkeys(("msg", *map(_held_by, _wire_fields(schema))))
    lines = ["def fill(msg, obj):", *(f"    {holder}.SetInParent()" for holder in holders)]
    for index, item in enumerate(_wire_fields(schema)):
        lines += _fill_lines(item, index, names)
    return cast("Filler", _compile(lines, names, "fill", schema))


def _held_by(item: FieldSchema) -> str:
    return ".".join(("msg", *(f"inside{number}" for number in item.inside)))


def _fill_lines(item: FieldSchema, index: int, names: dict[str, object]) -> list[str]:
    kind, source = item.type, f"obj.{item.attribute}"
    # Protobuf names such as "continue" are Python keywords, hence getattr where an attribute cannot be spelled.
    holder = _held_by(item)
    target = f"{holder}.{item.proto_name}" if item.proto_name != "continue" else 'getattr(msg, "continue")'
    if isinstance(kind, MapSchema):
        if _is_plain(kind.value):
            return [f"    if {source}:", f"        target = {target}", f"        for k, v in {source}.items():",
                    "            target[k] = v"]  # fmt: skip
        names[f"f{index}"] = _filler_of(kind.value)
        return [f"    if {source}:", f"        target = {target}", f"        for k, v in {source}.items():",
                f"            f{index}(target[k], v)"]  # fmt: skip
    if isinstance(kind, ListSchema) and not kind.wrapped:
        if _is_plain(kind.item):
            return [f"    if {source}:", f"        {target}.extend({source})"]
        names[f"f{index}"] = _filler_of(kind.item)
        return [f"    if {source}:", f"        target = {target}", f"        for v in {source}:",
                f"            f{index}(target.add(), v)"]  # fmt: skip
    if _is_plain(kind):
        assign = f'setattr(msg, "continue", {source})' if item.proto_name == "continue" else f"{target} = {source}"
        if item.pointer:
            return [f"    if {source} is not None:", f"        {assign}"]
        if isinstance(kind, ScalarSchema) and kind.kind == "bytes":
            return [f"    if {source}:", f"        {assign}"]
        return [f"    {assign}"]
    if isinstance(kind, ScalarSchema) and kind.type is not None:
        return [f"    if {source} is not None:", f"        {target} = {source}.to_message()"]
    names[f"f{index}"] = _filler_of(kind)
    lines = [f"    if {source} is not None:", f"        f{index}({target}, {source})"]
    if item.pointer and isinstance(kind, ScalarSchema) and kind.kind in ("time", "microtime") and _by_value(item):
        lines += ["    else:", f"        {target}.SetInParent()"]
    return lines


def _by_value(item: FieldSchema) -> bool:
    """Go holds most times by value and writes an unset one as an empty message; JSON shows those as null."""
    return item.always or item.name == "creationTimestamp"


@cache
def _maker(schema: StructSchema) -> Maker:
    names: dict[str, object] = {"Type": schema.type}
    lines = ["def make(msg):", "    return Type("]
    for index, item in enumerate(_wire_fields(schema)):
        lines.append(f"        {item.attribute}={_make_expression(item, index, names)},")
    lines.append("    )")
    return cast("Maker", _compile(lines, names, "make", schema))


def _make_expression(item: FieldSchema, index: int, names: dict[str, object]) -> str:
    kind, holder = item.type, _held_by(item)
    source = f"{holder}.{item.proto_name}" if item.proto_name != "continue" else 'getattr(msg, "continue")'
    # Most maps and lists are empty: to ask that takes a tenth of what copying nothing takes.
    if isinstance(kind, MapSchema):
        if _is_plain(kind.value):
            return f"dict(t) if (t := {source}) else {{}}"
        names[f"m{index}"] = _maker_of(kind.value)
        return f"{{k: m{index}(v) for k, v in t.items()}} if (t := {source}) else {{}}"
    if isinstance(kind, ListSchema) and not kind.wrapped:
        # On the wire an empty list and none are the same.
        otherwise = "None" if item.pointer else "[]"
        if _is_plain(kind.item):
            return f"list(t) if (t := {source}) else {otherwise}"
        names[f"m{index}"] = _maker_of(kind.item)
        return f"[m{index}(v) for v in t] if (t := {source}) else {otherwise}"
    if _is_plain(kind):
        return f'{source} if {holder}.HasField("{item.proto_name}") else None' if item.pointer else source
    names[f"m{index}"] = (
        _maker_of(kind) if not isinstance(kind, ScalarSchema) or kind.type is None else kind.type.from_message
    )
    if item.pointer:
        return f'm{index}({source}) if {holder}.HasField("{item.proto_name}") else None'
    return f"m{index}({source})"


def _compile(lines: list[str], names: dict[str, object], name: str, schema: StructSchema) -> object:
    code = compile("\n".join(lines), f"<protobuf {name} {schema.go_name}>", "exec")
    exec(code, names)  # noqa: S102 - the text is made from declarations in this package, never from input
    return names[name]


# ------------------------------------------------------------------ envelope and frames

Envelope = NewType("Envelope", bytes)


def varint(value: int) -> bytes:
    """A number, seven bits a byte; not below 0."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=4096)
def field_head(number: int, size: int) -> bytes:
    """What stands in front of the ``size`` bytes of a length-delimited field."""
    return varint(number << 3 | 2) + varint(size)


def length_delimited(number: int, payload: bytes) -> bytes:
    """A length-delimited field as it stands on the wire; the pieces of a list are joined from these."""
    return field_head(number, len(payload)) + payload


@cache
def envelope_prefix(api_version: str, kind: str) -> bytes:
    """Everything of an envelope that precedes ``raw``: the magic and the TypeMeta."""
    type_meta = length_delimited(1, api_version.encode()) + length_delimited(2, kind.encode())
    return MAGIC + length_delimited(1, type_meta)


# runtime.Unknown's contentEncoding = 3 and contentType = 4, both empty: what Go writes for protobuf.
_ENVELOPE_END = b"\x1a\x00\x22\x00"


def seal(api_version: str, kind: str, raw: bytes) -> Envelope:
    """The ``k8s\\0`` envelope around a bare message (k8s.io/apimachinery runtime/serializer/protobuf)."""
    before, after = seal_around(api_version, kind, len(raw))
    return Envelope(before + raw + after)


def seal_around(api_version: str, kind: str, size: int) -> tuple[bytes, bytes]:
    """What an envelope has before and after a message of ``size`` bytes."""
    return envelope_prefix(api_version, kind) + field_head(2, size), _ENVELOPE_END


class Opened(msgspec.Struct, frozen=True):
    """What an envelope holds."""

    api_version: str
    kind: str
    raw: bytes
    content_type: str


@cache
def _unknown_class() -> type[message.Message]:
    file = _new_file("runtime.proto")
    meta = file.message_type.add(name="TypeMeta")
    meta.field.add(name="apiVersion", number=1, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
    meta.field.add(name="kind", number=2, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
    unknown = file.message_type.add(name="Unknown")
    unknown.field.add(
        name="typeMeta", number=1, type=Descriptor.TYPE_MESSAGE, label=Descriptor.LABEL_OPTIONAL,
        type_name=f".{_PACKAGE}.TypeMeta",
    )  # fmt: skip
    unknown.field.add(name="raw", number=2, type=Descriptor.TYPE_BYTES, label=Descriptor.LABEL_OPTIONAL)
    unknown.field.add(name="contentEncoding", number=3, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
    unknown.field.add(name="contentType", number=4, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
    listing = file.message_type.add(name="List")
    listing.field.add(name="metadata", number=1, type=Descriptor.TYPE_BYTES, label=Descriptor.LABEL_OPTIONAL)
    listing.field.add(name="items", number=2, type=Descriptor.TYPE_BYTES, label=Descriptor.LABEL_REPEATED)
    event = file.message_type.add(name="WatchEvent")
    event.field.add(name="type", number=1, type=Descriptor.TYPE_STRING, label=Descriptor.LABEL_OPTIONAL)
    event.field.add(
        name="object", number=2, type=Descriptor.TYPE_MESSAGE, label=Descriptor.LABEL_OPTIONAL,
        type_name=f".{_PACKAGE}.RawExtension",
    )  # fmt: skip
    extension = file.message_type.add(name="RawExtension")
    extension.field.add(name="raw", number=1, type=Descriptor.TYPE_BYTES, label=Descriptor.LABEL_OPTIONAL)
    _pool.Add(file)
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.Unknown"))


def _runtime(name: str) -> Any:
    _unknown_class()
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))()


def unseal(data: bytes) -> Opened:
    """What is inside an envelope.

    Raises:
        ProtobufError: no ``k8s\\0`` prefix (Kubernetes' words), or not a ``runtime.Unknown``.
    """
    if not data:
        raise ProtobufError("empty data")
    if not data.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    unknown: Any = _unknown_class()()
    try:
        unknown.ParseFromString(data[len(MAGIC) :])
        return Opened(unknown.typeMeta.apiVersion, unknown.typeMeta.kind, unknown.raw, unknown.contentType)
    except (message.DecodeError, UnicodeDecodeError) as err:
        raise ProtobufError(str(err)) from err


def split_list(raw: bytes) -> tuple[bytes, list[bytes]]:
    """The metadata message and the item messages of a list. Raises :class:`ProtobufError`."""
    listing = _runtime("List")
    try:
        listing.ParseFromString(raw)
    except (message.DecodeError, UnicodeDecodeError) as err:
        raise ProtobufError(str(err)) from err
    return listing.metadata, list(listing.items)


def watch_frame(event_type: str, envelope: bytes) -> bytes:
    """One frame of a protobuf watch: four bytes of length, then a bare WatchEvent around a whole envelope."""
    event = length_delimited(1, event_type.encode()) + length_delimited(2, length_delimited(1, envelope))
    return len(event).to_bytes(4, "big") + event


def open_watch_event(event: bytes) -> tuple[str, bytes]:
    """Type and envelope of a WatchEvent message, the four bytes of length already taken off."""
    parsed = _runtime("WatchEvent")
    try:
        parsed.ParseFromString(event)
        return parsed.type, parsed.object.raw
    except (message.DecodeError, UnicodeDecodeError) as err:
        raise ProtobufError(str(err)) from err
