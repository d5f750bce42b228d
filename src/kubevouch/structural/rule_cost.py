"""What an expression can cost at worst, estimated from its tree and the sizes that a schema allows.

Source: cel-go checker/cost.go, common/cost.go (0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubevouch.cel.macros import ACCUMULATOR
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
from kubevouch.cel.types import DYN, OPTIONAL, Type
from kubevouch.structural.rule_function_costs import (
    FUNCTIONS,
    LIST,
    MOST,
    NOTHING,
    ONE,
    OVERLOADS,
    PATTERN,
    TEXT,
    UNKNOWN,
    Estimate,
    Operand,
    Path,
    Range,
    add,
    scaled,
    times,
    union,
)
from kubevouch.structural.rule_types import Declared

_MAP, _STRUCT = 30, 40


class _Entries(msgspec.Struct, frozen=True):
    """The sizes of the keys and values of a list or map literal."""

    container: str
    key: Range
    value: Range


class _Variable(msgspec.Struct, frozen=True):
    path: Path
    size: Range | None = None
    entries: _Entries | None = None


def estimate(tree: Node, root: Declared) -> int:
    """The most that a checked expression over a value of the type can cost."""
    return _Coster(root).cost(tree)[1]


@dataclass
class _Coster:
    root: Declared
    costs: dict[int, Range] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)
    sizes: dict[int, Range] = field(default_factory=dict)
    entry_sizes: dict[int, _Entries] = field(default_factory=dict)
    variables: dict[str, list[_Variable]] = field(default_factory=dict)

    def cost(self, node: Node) -> Range:
        known = self.costs.get(id(node))
        if known is None:
            known = self.costs[id(node)] = _COSTS[type(node)](self, node)
        return known

    # -------------------------------------------------------------- names, members and literals

    def _literal(self, _node: Literal) -> Range:
        return NOTHING

    def _ident(self, node: Ident) -> Range:
        variable = self._local(node.name)
        self.paths[id(node)] = (node.name,) if variable is None else variable.path
        return ONE

    def _select(self, node: Select) -> Range:
        if node.operand.type is None:
            # The qualified name of a type.
            self.paths[id(node)] = (node.key or node.field,)
            return ONE
        total = self.cost(node.operand)
        if node.test_only:
            # Kubernetes keeps tests of presence free.
            return total
        if node.operand.type.kind in ("map", "struct", "param"):
            total = add(total, ONE)
        self.paths[id(node)] = (*self._path(node.operand), node.field)
        return total

    def _list(self, node: ListLiteral) -> Range:
        total, item = NOTHING, (MOST if node.elements else 0, 0)
        for each in node.elements:
            total = add(total, self.cost(each))
            item = union(item, self._known_size(each))
        self.entry_sizes[id(node)] = _Entries("list", ONE, item)
        return add(total, (LIST, LIST))

    def _map(self, node: MapLiteral) -> Range:
        total = NOTHING
        key = value = (MOST if node.entries else 0, 0)
        for entry in node.entries:
            total = add(total, self.cost(entry.key), self.cost(entry.value))
            key = union(key, self._known_size(entry.key))
            value = union(value, self._known_size(entry.value))
        self.entry_sizes[id(node)] = _Entries("map", key, value)
        return add(total, (_MAP, _MAP))

    def _struct(self, node: StructLiteral) -> Range:
        return add((_STRUCT, _STRUCT), *(self.cost(each.value) for each in node.entries))

    # -------------------------------------------------------------- loops

    def _comprehension(self, node: Comprehension) -> Range:
        if self._is_binding(node):
            return self._binding(node)
        total = add(self.cost(node.iter_range), self.cost(node.accu_init))
        self._push(node.accu_var, self._bound_to(node.accu_init))
        if node.iter_var2:
            self._push(node.iter_var, self._key_of(node.iter_range))
            self._push(node.iter_var2, self._value_of(node.iter_range))
        else:
            is_list = self._container(node.iter_range) == "list"
            self._push(node.iter_var, (self._value_of if is_list else self._key_of)(node.iter_range))
        condition = self.cost(node.loop_condition)
        step = self.cost(node.loop_step)
        self.variables[node.iter_var].pop()
        if node.iter_var2:
            self.variables[node.iter_var2].pop()
        total = add(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        count = self._known_size(node.iter_range)
        total = add(total, times(count, add(step, condition)))
        if isinstance(node.accu_init, Literal):
            self._set_size(node, self._size(node.accu_init))
        elif isinstance(node.accu_init, (ListLiteral, MapLiteral)):
            self._set_size(node, count)
            self._set_entries(node, self._entries(node.loop_step))
        return total

    @staticmethod
    def _is_binding(node: Comprehension) -> bool:
        return (
            isinstance(node.iter_range, ListLiteral)
            and not node.iter_range.elements
            and isinstance(node.loop_condition, Literal)
            and node.loop_condition.value is False
            and node.accu_var != ACCUMULATOR
        )

    def _binding(self, node: Comprehension) -> Range:
        total = add(self.cost(node.iter_range), self.cost(node.accu_init))
        self._push(node.accu_var, self._bound_to(node.accu_init))
        total = add(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        self._copy(node, node.result)
        return total

    def _push(self, name: str, variable: _Variable) -> None:
        self.variables.setdefault(name, []).append(variable)

    def _local(self, name: str) -> _Variable | None:
        known = self.variables.get(name)
        return known[-1] if known else None

    def _bound_to(self, node: Node) -> _Variable:
        return _Variable(self._path(node), self._size(node), self._entries(node))

    def _container(self, node: Node) -> str:
        entries = self._entries(node)
        return entries.container if entries is not None else self._type(node).kind

    def _key_of(self, node: Node) -> _Variable:
        entries = self._entries(node)
        step = "@indices" if self._container(node) == "list" else "@keys"
        return _Variable((*self._path(node), step), None if entries is None else entries.key)

    def _value_of(self, node: Node) -> _Variable:
        entries = self._entries(node)
        step = "@items" if self._container(node) == "list" else "@values"
        return _Variable((*self._path(node), step), None if entries is None else entries.value)

    # -------------------------------------------------------------- calls

    def _call(self, node: Call) -> Range:
        if node.function == "dyn" and node.target is None:
            total = add(ONE, self.cost(node.args[0]))
            self._copy(node, node.args[0])
            return total
        costs, args = [], []
        # Not in a comprehension, which would be one more frame for each level.
        for each in node.args:
            costs.append(self.cost(each))
            args.append(self._operand(each))
        if not node.overloads:
            return NOTHING
        total, target = NOTHING, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._operand(node.target)
        most: Range = (MOST, 0)
        size: Range | None = None
        for overload in node.overloads:
            found = self._function(node, overload, target, args, costs)
            most = union(most, found.cost)
            if found.size is not None:
                size = found.size if size is None else union(size, found.size)
            if overload in ("index_list", "index_map"):
                entries = self._entries(node.args[0])
                size = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = (*self._path(node.args[0]), step)
            if size is None:
                size = self._size(node)
        self._set_size(node, size)
        return add(total, most)

    def _function(
        self, node: Call, overload: str, target: Operand | None, args: Sequence[Operand], costs: Sequence[Range]
    ) -> Estimate:
        paid = add(*costs)
        own = OVERLOADS.get(overload)
        found = own(self, target, args) if own is not None else None
        if found is None and node.function in FUNCTIONS:
            found = FUNCTIONS[node.function](self, overload, target, args)
        if found is None:
            found = self._standard(node, overload, target, args, costs)
            if overload in ("logical_and", "logical_or", "conditional"):
                return found
        return Estimate(add(found.cost, paid), found.size)

    def _standard(
        self, node: Call, overload: str, target: Operand | None, args: Sequence[Operand], costs: Sequence[Range]
    ) -> Estimate:
        sizes = [_or_unknown(each.size) for each in args]
        of_target = UNKNOWN if target is None else _or_unknown(target.size)
        match overload:
            case "string_format":
                return Estimate(scaled(of_target, TEXT))
            case "string_to_bytes":
                return Estimate(scaled(sizes[0], TEXT), (sizes[0][0], min(sizes[0][1] * 4, MOST)))
            case "bytes_to_string":
                return Estimate(scaled(sizes[0], TEXT), (sizes[0][0] // 4, sizes[0][1]))
            case "strings_quote":
                return Estimate(scaled(sizes[0], TEXT), (sizes[0][0] + 2, min(sizes[0][1] * 2 + 2, MOST)))
            case "starts_with_string" | "ends_with_string":
                return Estimate(scaled(sizes[0], TEXT))
            case "in_list":
                return Estimate(sizes[1])
            case "matches_string":
                return Estimate(times(scaled(add(of_target, ONE), TEXT), scaled(sizes[0], PATTERN)))
            case "contains_string":
                return Estimate(times(scaled(of_target, TEXT), scaled(sizes[0], TEXT)))
            case "logical_and" | "logical_or":
                return Estimate((costs[0][0], add(*costs)[1]))
            case "conditional":
                self._set_entries(node, _joined(self._entries(node.args[1]), self._entries(node.args[2])))
                return Estimate(add(costs[0], union(costs[1], costs[2])), union(sizes[1], sizes[2]))
            case "add_string" | "add_bytes" | "add_list":
                size = add(*sizes)
                self._set_entries(node, _joined(self._entries(node.args[0]), self._entries(node.args[1])))
                return Estimate(ONE if overload == "add_list" else scaled(size, TEXT), size)
        if overload in _COMPARISONS:
            most = min(sizes[0][1], sizes[1][1])
            return Estimate(scaled((1 if most else 0, most), TEXT))
        return Estimate(ONE)

    # -------------------------------------------------------------- sizes

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        # Accumulators are nobody's.
        hidden = not path or path[0] == ACCUMULATOR
        return Operand(node, self._type(node), None if hidden else path, self._size(node))

    @staticmethod
    def _type(node: Node) -> Type:
        return DYN if node.type is None else node.type

    def _path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            variable = self._local(node.name)
            if variable is not None:
                return variable.path
        return self.paths.get(id(node), ())

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self.sizes[id(node)] = size

    def _set_entries(self, node: Node, entries: _Entries | None) -> None:
        if entries is not None:
            self.entry_sizes[id(node)] = entries

    def _copy(self, node: Node, source: Node) -> None:
        self._set_size(node, self._size(source))
        self._set_entries(node, self._entries(source))

    def _known_size(self, node: Node) -> Range:
        return _or_unknown(self._size(node))

    def _size(self, node: Node) -> Range | None:
        known = self.sizes.get(id(node))
        if known is None:
            known = _literal_size(node)
        if known is not None:
            return known
        known = self.declared_size(self._path(node))
        if known is not None:
            self.sizes[id(node)] = known
            return known
        if _is_scalar(self._type(node)):
            return ONE
        if isinstance(node, Ident):
            variable = self._local(node.name)
            return None if variable is None else variable.size
        return None

    def _entries(self, node: Node) -> _Entries | None:
        known = self.entry_sizes.get(id(node))
        if known is None and isinstance(node, Ident):
            variable = self._local(node.name)
            return None if variable is None else variable.entries
        return known

    def declared_size(self, path: Path | None) -> Range | None:
        """What the schema says of a value. The first step is the variable, whatever it is."""
        if not path:
            return None
        node: Declared | None = self.root
        for step in path[1:]:
            if node is None:
                return None
            if step in ("@items", "@values"):
                node = node.element
            elif step == "@keys":
                node = node.key
            else:
                found = (node.fields or {}).get(step)
                node = None if found is None else found[1]
        return None if node is None else (0, node.elements)


def _or_unknown(size: Range | None) -> Range:
    return UNKNOWN if size is None else size


def _joined(left: _Entries | None, right: _Entries | None) -> _Entries | None:
    if left is None or right is None:
        return None
    return _Entries(left.container, union(left.key, right.key), union(left.value, right.value))


def _literal_size(node: Node) -> Range | None:
    if isinstance(node, Literal):
        size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
    elif isinstance(node, ListLiteral):
        size = len(node.elements)
    elif isinstance(node, MapLiteral):
        size = len(node.entries)
    else:
        return None
    return size, size


def _is_scalar(kind: Type) -> bool:
    if kind.kind == "opaque" and kind.name == OPTIONAL:
        return _is_scalar(kind.parameters[0])
    return kind.kind in ("bool", "double", "duration", "int", "timestamp", "uint")


_COMPARISONS: Final = frozenset(
    {"equals", "not_equals"}.union(
        f"{word}_{kind}"
        for word in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    )
)


_COSTS: Final[dict[type[Node], Callable[[_Coster, Any], Range]]] = {
    Literal: _Coster._literal, Ident: _Coster._ident, Select: _Coster._select, Call: _Coster._call,
    ListLiteral: _Coster._list, MapLiteral: _Coster._map, StructLiteral: _Coster._struct,
    Comprehension: _Coster._comprehension,
}  # fmt: skip
