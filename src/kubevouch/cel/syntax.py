"""The checked syntax tree of Google's compiler, read from its serialized form.

Source: cel-spec proto/cel/expr/{syntax,checked}.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from kubevouch.cel.tree import (
    Call,
    Comprehension,
    Entry,
    FieldEntry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from kubevouch.cel.values import UInt

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


def parse(serialized: bytes) -> Node:
    """The tree of a serialized expression."""
    checked = _CHECKED_EXPR.FromString(any_pb2.Any.FromString(serialized).value)
    return _Reader({each.key: each.value for each in checked.source_info.positions}).node(checked.expr)


class _Reader:
    """Makes nodes of messages.

    Args:
        offsets: the place of each message in the source, by its number.
    """

    def __init__(self, offsets: Mapping[int, int]) -> None:
        self._offsets = offsets

    def node(self, expression: Any) -> Node:
        kind = expression.WhichOneof("kind")
        return _READERS[kind](self, self._offsets.get(expression.id, 0), getattr(expression, kind))

    def _literal(self, offset: int, constant: Any) -> Node:
        kind = constant.WhichOneof("kind")
        if kind == "null_value":
            return Literal(offset, None)
        value = getattr(constant, kind)
        return Literal(offset, UInt(value) if kind == "uint64_value" else value)

    def _ident(self, offset: int, ident: Any) -> Node:
        return Ident(offset, ident.name)

    def _select(self, offset: int, select: Any) -> Node:
        return Select(offset, self.node(select.operand), select.field, select.test_only)

    def _call(self, offset: int, call: Any) -> Node:
        target = self.node(call.target) if call.HasField("target") else None
        return Call(offset, call.function, target, [self.node(each) for each in call.args])

    def _list(self, offset: int, literal: Any) -> Node:
        elements = [self.node(each) for each in literal.elements]
        return ListLiteral(offset, elements, frozenset(literal.optional_indices))

    def _struct(self, offset: int, literal: Any) -> Node:
        if literal.message_name:
            fields = [
                FieldEntry(offset, each.field_key, self.node(each.value), each.optional_entry)
                for each in literal.entries
            ]
            return StructLiteral(offset, literal.message_name, fields)
        return MapLiteral(
            offset,
            [
                Entry(offset, self.node(each.map_key), self.node(each.value), each.optional_entry)
                for each in literal.entries
            ],
        )

    def _comprehension(self, offset: int, loop: Any) -> Node:
        return Comprehension(
            offset,
            loop.iter_var,
            "",
            self.node(loop.iter_range),
            loop.accu_var,
            self.node(loop.accu_init),
            self.node(loop.loop_condition),
            self.node(loop.loop_step),
            self.node(loop.result),
        )


_READERS: Final[dict[str, Callable[[_Reader, int, Any], Node]]] = {
    "const_expr": _Reader._literal, "ident_expr": _Reader._ident, "select_expr": _Reader._select,
    "call_expr": _Reader._call, "list_expr": _Reader._list, "struct_expr": _Reader._struct,
    "comprehension_expr": _Reader._comprehension,
}  # fmt: skip
