"""The checker: every node of a tree gets its type, every call its signatures.

Source: cel-go checker/{checker,env,errors}.go (0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubevouch.cel.declarations import TYPE_NAMES, Signature, declarations
from kubevouch.cel.issues import Issue
from kubevouch.cel.tree import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from kubevouch.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Mappings,
    Type,
    assignable,
    list_of,
    map_of,
    most_general,
    optional_of,
    parameter,
    substitute,
    unwrapped,
)
from kubevouch.cel.values import UInt


class Struct(Protocol):
    """What the origin of a declared struct's type knows: its fields."""

    def member(self, name: str) -> tuple[str, Type] | None:
        """The key of a field in values, and its type; None if there is no such field."""


class Additions(msgspec.Struct, frozen=True):
    """What some expressions may use besides the variables.

    Args:
        message: the type of messages by their name, whose origin is a :class:`Struct` and has ``make``; or None.
        functions: by name.
    """

    message: Callable[[str], Type | None]
    functions: Mapping[str, tuple[Signature, ...]]


NOTHING = Additions(lambda _: None, {})

_CONSTANTS: dict[type, Type] = {
    type(None): NULL, bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES
}  # fmt: skip
_LOGIC = ("_&&_", "_||_")


class Checked:
    """What came of a check.

    Args:
        issues: what is wrong; empty if the tree may run.
        names: the variables that it uses.
    """

    def __init__(self, issues: list[Issue], names: frozenset[str]) -> None:
        self.issues = issues
        self.names = names


def check(node: Node, variables: Mapping[str, Type], additions: Additions = NOTHING) -> Checked:
    """Check a tree in place: ``type``, ``key`` and ``overloads`` of its nodes are set.

    Raises:
        RecursionError: it nests too deep.
    """
    checker = _Checker(variables, additions)
    checker.visit(node)
    checker.settle()
    return Checked(checker.issues, frozenset(checker.names))


class _Checker:
    def __init__(self, variables: Mapping[str, Type], additions: Additions) -> None:
        self._message = additions.message
        self.issues: list[Issue] = []
        self.names: set[str] = set()
        self._variables = variables
        self._scopes: list[dict[str, Type]] = []
        self._mappings: Mappings = {}
        self._free = 0
        self._functions = {**declarations(), **additions.functions} if additions.functions else declarations()
        self._nodes: list[Node] = []

    def settle(self) -> None:
        """Put in what parameters came to stand for."""
        for each in self._nodes:
            if each.type is not None and (each.type.kind == "param" or each.type.parameters):
                each.type = substitute(self._mappings, each.type, free_to_dyn=True)

    def visit(self, node: Node) -> Type:
        if node.type is not None:
            return node.type
        found = _VISITORS[type(node)](self, node)
        node.type = found
        self._nodes.append(node)
        return found

    def _wrong(self, offset: int, text: str) -> None:
        self.issues.append(Issue(offset, text))

    def _fits(self, left: Type, right: Type) -> bool:
        grown = assignable(self._mappings, (left,), (right,))
        if grown is None:
            return False
        self._mappings = grown
        return True

    def _fresh(self) -> Type:
        self._free += 1
        return parameter(f"_var{self._free - 1}")

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._wrong(node.offset, f"expected type '{expected}' but found '{found}'")

    # -------------------------------------------------------------- names and members

    def _literal(self, node: Literal) -> Type:
        return _CONSTANTS[type(node.value)]

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        bare = name.removeprefix(".")
        if bare in self._variables:
            self.names.add(bare)
            return self._variables[bare]
        return TYPE_NAMES.get(bare)

    def _ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is None:
            self._wrong(node.offset, f"undeclared reference to '{node.name}' (in container '')")
            return ERROR
        node.name = node.name.removeprefix(".")
        return found

    def _select(self, node: Select) -> Type:
        name = _qualified(node)
        if name is not None and (name in TYPE_NAMES or name in self._variables):
            found = self._lookup(name)
            # The type is known by its whole name; what runs looks it up so.
            node.key = name
            return found or ERROR
        found = self._member(node, node.operand, node.field)
        return BOOL if node.test_only else substitute(self._mappings, found)

    def _member(self, node: Node, operand: Node, name: str, *, optional: bool = False) -> Type:
        target, was_optional = unwrapped(substitute(self._mappings, self.visit(operand)))
        result = ERROR
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "struct":
            result = self._field(node, target, name)
        else:
            if target.kind == "param":
                self._fits(DYN, target)
            elif target.kind not in ("dyn", "error"):
                self._wrong(node.offset, f"type '{target}' does not support field selection")
            result = DYN
        return optional_of(result) if was_optional or optional else result

    def _field(self, node: Node, target: Type, name: str) -> Type:
        if target.origin is None:
            self._wrong(node.offset, f"unexpected failed resolution of '{target}'")
            return ERROR
        struct: Struct = target.origin
        found = struct.member(name)
        if found is None:
            self._wrong(node.offset, f"undefined field '{name}'")
            return ERROR
        key, kind = found
        if isinstance(node, Select):
            node.key = key
        elif isinstance(node, Call) and isinstance(node.args[1], Literal):
            node.args[1].value = key
        return kind

    # -------------------------------------------------------------- calls

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            return self._optional_select(node)
        for each in node.args:
            self.visit(each)
        if node.target is not None:
            prefix = _qualified(node.target)
            whole = f"{prefix}.{node.function}".removeprefix(".")
            if prefix is not None and whole in self._functions:
                node.function, node.target = whole, None
            else:
                self.visit(node.target)
        signatures = self._functions.get(node.function.removeprefix(".") if node.target is None else node.function)
        if signatures is None:
            self._wrong(node.offset, f"undeclared reference to '{node.function}' (in container '')")
            return ERROR
        if node.target is None:
            node.function = node.function.removeprefix(".")
        return self._resolve(node, signatures)

    def _optional_select(self, node: Call) -> Type:
        operand, name = node.args
        assert isinstance(name, Literal)
        self.visit(name)
        found = self._member(node, operand, str(name.value), optional=True)
        node.overloads = ("select_optional_field",)
        return substitute(self._mappings, found)

    def _resolve(self, node: Call, signatures: Sequence[Signature]) -> Type:
        operands = [node.target, *node.args] if node.target is not None else list(node.args)
        types = [each.type or ERROR for each in operands]
        if node.function in _LOGIC:
            return self._logic(node, operands, types, signatures[0])
        result: Type | None = None
        matching = []
        for signature in signatures:
            if signature.is_member is not (node.target is not None) or len(signature.parameters) != len(types):
                continue
            parameters, found = signature.parameters, signature.result
            if signature.generic or found.kind == "param" or found.parameters:
                fresh: dict[str, Type] = {}
                parameters = tuple(self._instance(each, fresh) for each in parameters)
                found = self._instance(found, fresh)
            grown = assignable(self._mappings, types, parameters)
            if grown is None:
                continue
            self._mappings = grown
            matching.append(signature.name)
            found = substitute(self._mappings, found)
            if result is None:
                result = found
            elif result.kind != "dyn" and result != found:
                result = DYN
        if result is None:
            shown = [str(substitute(self._mappings, each, free_to_dyn=True)) for each in types]
            target = f"{shown.pop(0)}." if node.target is not None else ""
            text = f"found no matching overload for '{node.function}' applied to '{target}({', '.join(shown)})'"
            self._wrong(node.offset, text)
            return ERROR
        node.overloads = tuple(matching)
        # What lists of a kind of their own give together is of that kind.
        return types[0] if node.function == "_+_" and types[0].origin is not None and result == types[0] else result

    def _logic(self, node: Call, operands: Sequence[Node], types: Sequence[Type], signature: Signature) -> Type:
        wrong = False
        for operand, kind in zip(operands, types, strict=True):
            if not self._fits(kind, BOOL):
                self._mismatch(operand, BOOL, kind)
                wrong = True
        node.overloads = (signature.name,)
        return ERROR if wrong else BOOL

    def _instance(self, kind: Type, fresh: dict[str, Type]) -> Type:
        if kind.kind == "param":
            if kind.name not in fresh:
                fresh[kind.name] = self._fresh()
            return fresh[kind.name]
        if not kind.parameters:
            return kind
        return Type(kind.kind, kind.name, tuple(self._instance(each, fresh) for each in kind.parameters), kind.origin)

    # -------------------------------------------------------------- literals and loops

    def _join(self, before: Type | None, now: Type) -> Type:
        if before is None:
            return now
        # Where types may not be mixed, :mod:`kubevouch.cel.literals` says so.
        return most_general(before, now) if self._fits(before, now) else DYN

    def _element(self, node: Node, *, optional: bool) -> Type:
        found = self.visit(node)
        if not optional:
            return found
        inner, was_optional = unwrapped(found)
        if not was_optional and inner.kind != "dyn":
            self._mismatch(node, optional_of(inner), inner)
        return inner

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for place, each in enumerate(node.elements):
            joined = self._join(joined, self._element(each, optional=place in node.optional))
        return list_of(joined or self._fresh())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.visit(entry.key))
            values = self._join(values, self._element(entry.value, optional=entry.optional))
        return map_of(keys or self._fresh(), values or self._fresh())

    def _struct(self, node: StructLiteral) -> Type:
        made = self._message(node.name)
        if made is not None:
            self._entries(node, made.origin)
            return made
        found = self._lookup(node.name)
        if found is None:
            self._wrong(node.offset, f"undeclared reference to '{node.name}' (in container '')")
        elif found.kind != "type":
            self._wrong(node.offset, f"'{found}' is not a type")
        else:
            self._wrong(node.offset, f"'{found.parameters[0]}' is not a message type")
        return ERROR

    def _entries(self, node: StructLiteral, struct: Struct) -> None:
        for entry in node.entries:
            found = self._element(entry.value, optional=entry.optional)
            declared = struct.member(entry.name)
            if declared is None:
                self._wrong(entry.offset, f"undefined field '{entry.name}'")
            elif not self._fits(declared[1], found):
                shown = substitute(self._mappings, found, free_to_dyn=True)
                text = f"expected type of field '{entry.name}' is '{declared[1]}' but provided type is '{shown}'"
                self._wrong(entry.offset, text)

    def _comprehension(self, node: Comprehension) -> Type:
        among = substitute(self._mappings, self.visit(node.iter_range))
        start = self.visit(node.accu_init)
        first: Type = ERROR
        second: Type = ERROR
        if among.kind == "list":
            first = second = among.parameters[0]
            if node.iter_var2:
                first = INT
        elif among.kind == "map":
            first, second = among.parameters
        elif among.kind in ("dyn", "error", "param"):
            self._fits(DYN, among)
            first = second = DYN
        else:
            text = f"expression of type '{among}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._wrong(node.iter_range.offset, text)
        self._scopes.append({node.accu_var: start})
        inner = {node.iter_var: first}
        if node.iter_var2:
            inner[node.iter_var2] = second
        self._scopes.append(inner)
        self._assert(node.loop_condition, BOOL)
        self._assert(node.loop_step, start)
        self._scopes.pop()
        result = self.visit(node.result)
        self._scopes.pop()
        return substitute(self._mappings, result)

    def _assert(self, node: Node, wanted: Type) -> None:
        found = self.visit(node)
        if not self._fits(wanted, found):
            self._mismatch(node, wanted, found)


_VISITORS: dict[type[Node], Callable[[_Checker, Any], Type]] = {
    Literal: _Checker._literal, Ident: _Checker._ident, Select: _Checker._select, Call: _Checker._call,
    ListLiteral: _Checker._list, MapLiteral: _Checker._map, StructLiteral: _Checker._struct,
    Comprehension: _Checker._comprehension,
}  # fmt: skip


def _qualified(node: Node) -> str | None:
    """``a.b.c`` of a chain of names; None for anything else."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test_only:
        prefix = _qualified(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None
