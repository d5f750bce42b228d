"""Declared structs as types of the expression compiler, so that a misspelt field does not compile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

from kubevouch.machinery.schema import ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema, schema_of

PACKAGE = "kubernetes"

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL, "int32": _Field.TYPE_INT64, "int64": _Field.TYPE_INT64,
}  # fmt: skip
_MEMBERS = {
    "bool": _Field.TYPE_BOOL, "int": _Field.TYPE_INT64, "uint": _Field.TYPE_UINT64, "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip


class MessageTypes:
    """A descriptor pool with a message for each struct that was added, and for those inside it."""

    def __init__(self) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self._known: dict[type[msgspec.Struct], str] = {}
        values = descriptor_pb2.FileDescriptorProto()
        struct_pb2.DESCRIPTOR.CopyToProto(values)
        self.pool.Add(values)

    def add(self, struct: type[msgspec.Struct]) -> str:
        """The full name of the message for ``struct``."""
        return self._message(schema_of(struct))

    def add_members(self, name: str, members: Sequence[tuple[str, str]]) -> str:
        """The full name of a message called ``name`` with the members and their types."""
        file = descriptor_pb2.FileDescriptorProto(name=f"members/{name}.proto", package=PACKAGE, syntax="proto3")
        file.dependency.append(struct_pb2.DESCRIPTOR.name)
        message = file.message_type.add(name=name)
        for number, (member, kind) in enumerate(members, 1):
            if kind in _MEMBERS:
                message.field.add(name=member, number=number, label=_Field.LABEL_OPTIONAL, type=_MEMBERS[kind])
            else:
                self._field(file, message, member, number, ScalarSchema("json"))
        self.pool.Add(file)
        return f"{PACKAGE}.{name}"

    def _message(self, schema: StructSchema) -> str:
        name = self._known.get(schema.type)
        if name is None:
            # Two groups may have kinds of the same name.
            taken = sum(known.go_name == schema.go_name for known in map(schema_of, self._known))
            name = self._known[schema.type] = f"{schema.go_name}{taken or ''}"
            file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=PACKAGE, syntax="proto3")
            file.dependency.append(struct_pb2.DESCRIPTOR.name)
            message = file.message_type.add(name=name)
            for number, field in enumerate(schema.fields, 1):
                self._field(file, message, field.name, number, field.type)
            self.pool.Add(file)
        return f"{PACKAGE}.{name}"

    def _field(
        self,
        file: descriptor_pb2.FileDescriptorProto,
        message: descriptor_pb2.DescriptorProto,
        name: str,
        number: int,
        kind: TypeSchema,
    ) -> None:
        field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if isinstance(kind, MapSchema):
            entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
            self._field(file, entry, "value", 2, kind.value)
            field.label = _Field.LABEL_REPEATED
            field.type = _Field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
        elif isinstance(kind, ListSchema) and not kind.wrapped:
            self._single(file, field, kind.item)
            field.label = _Field.LABEL_REPEATED
        else:
            self._single(file, field, kind)

    def _single(self, file: descriptor_pb2.FileDescriptorProto, field: _Field, kind: TypeSchema) -> None:
        if isinstance(kind, ScalarSchema) and kind.kind in _SCALARS:
            field.type = _SCALARS[kind.kind]
            return
        field.type = _Field.TYPE_MESSAGE
        if isinstance(kind, StructSchema):
            full_name = self._message(kind)
            field.type_name = f".{full_name}"
            needed = f"{full_name.removeprefix(PACKAGE)[1:]}.proto"
            if needed not in (file.name, *file.dependency):
                file.dependency.append(needed)
        else:
            # What JSON has only as text (times, quantities, bytes) is any: what it means is for the expression to say.
            # A list inside a map or another list has no protobuf form of its own.
            field.type_name = ".google.protobuf.ListValue" if isinstance(kind, ListSchema) else ".google.protobuf.Value"
