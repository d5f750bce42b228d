"""The checked syntax tree of the compiler, read from its serialized form.

Source: cel-spec proto/cel/expr/{syntax,checked}.proto.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "kubevouch.cel"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL, "int32": _Field.TYPE_INT32, "int64": _Field.TYPE_INT64, "uint64": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE, "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES,
}  # fmt: skip
# Name, number and type of what is read; a star makes a list.
_MESSAGES = {
    "Constant": "null_value 1 int32, bool_value 2 bool, int64_value 3 int64, uint64_value 4 uint64, "
    "double_value 5 double, string_value 6 string, bytes_value 7 bytes",
    "Ident": "name 1 string",
    "Select": "operand 1 Expr, field 2 string, test_only 3 bool",
    "Call": "target 1 Expr, function 2 string, args 3 Expr*",
    "CreateList": "elements 1 Expr*, optional_indices 2 int32*",
    "Entry": "field_key 2 string, map_key 3 Expr, value 4 Expr, optional_entry 5 bool",
    "CreateStruct": "message_name 1 string, entries 2 Entry*",
    "Comprehension": "iter_var 1 string, iter_range 2 Expr, accu_var 3 string, accu_init 4 Expr, "
    "loop_condition 5 Expr, loop_step 6 Expr, result 7 Expr",
    "Expr": "id 2 int64, const_expr 3 Constant, ident_expr 4 Ident, select_expr 5 Select, call_expr 6 Call"
    ", list_expr 7 CreateList, struct_expr 8 CreateStruct, comprehension_expr 9 Comprehension",
    "Position": "key 1 int64, value 2 int32",
    "SourceInfo": "positions 4 Position*",
    "CheckedExpr": "expr 4 Expr, source_info 5 SourceInfo",
}
# The alternatives of these have presence.
_ONE_OF = ("Constant", "Expr")


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="kubevouch/cel/syntax.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name="kind")
        for text in fields.split(", "):
            field_name, number, kind = text.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            field.type = _SCALARS.get(kind, _Field.TYPE_MESSAGE)
            if kind not in _SCALARS:
                field.type_name = f".{_PACKAGE}.{kind}"
            if name in _ONE_OF and field_name != "id":
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.CheckedExpr"))


_CHECKED_EXPR: Final = _message_class()


def parse(serialized: bytes) -> Any:
    """The ``CheckedExpr`` message of a serialized expression."""
    return _CHECKED_EXPR.FromString(any_pb2.Any.FromString(serialized).value)
