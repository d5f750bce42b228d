"""The interpreter: a checked syntax tree becomes a function of a run and a scope, with every step paid for.

The costs are those of cel-go. What takes longer than it costs there (deep equality, joining lists, turns of a loop that
cost nothing) has a limit of its own, so that both together are a bound on time.

Source: cel-go interpreter/{interpretable,attributes,optimizations,runtimecost}.go, common/cost.go (0.26).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from kubevouch.cel.functions import FUNCTIONS, Implementation
from kubevouch.cel.macros import MAP_INSERT
from kubevouch.cel.natives import Conversion, conversion
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
from kubevouch.cel.types import Type, unwrapped
from kubevouch.cel.values import (
    NONE,
    EvaluationError,
    Lazy,
    Message,
    Optional,
    OutOfBudget,
    Run,
    TypeValue,
    UInt,
    no_such_overload,
    same,
    spend_on_equality,
)

Scope = dict[str, Any]
Step = Callable[[Run, Scope], Any]

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
# Constants that take longer are converted where they are used.
_FOLDING_LIMIT = 10_000
_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"))
_LOOKUPS = frozenset(("_[_]", "_[?_]", "_?._"))


class _Failed(msgspec.Struct, frozen=True):
    """What a comprehension holds after a turn that failed: a later turn may still settle it."""

    error: EvaluationError


_ABSENT = object()
_TYPES = {
    name: TypeValue(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type",
                 "google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type", "net.IP", "net.CIDR")
}  # fmt: skip


def build(node: Node) -> Step:
    """The step for a tree, which a checker may have given types."""
    if node.step is None:
        node.step = _BUILDERS[type(node)](node)
    step: Step = node.step
    return step


def _constant(literal: Literal) -> Step:
    value = literal.value
    return lambda _run, _scope: value


def _ident(ident: Ident) -> Step:
    return _named(ident.name)


def _named(name: str) -> Step:

    def step(run: Run, scope: Scope) -> Any:
        value = scope.get(name, _ABSENT)
        if value is _ABSENT and name in _TYPES:
            return _TYPES[name]
        run.cost += 1
        if type(value) is _Failed:
            raise value.error
        if value is not _ABSENT:
            return value
        raise EvaluationError(f"no such attribute(s): {name}")

    return step


# ------------------------------------------------------------------ members and elements


def _is_struct(kind: Type | None) -> bool:
    return kind is not None and unwrapped(kind)[0].kind == "struct"


def _select(select: Select) -> Step:
    if select.key is not None and select.operand.type is None:
        # The qualified name of a type.
        return _named(select.key)
    operand, field = build(select.operand), select.key or select.field
    if _is_struct(select.operand.type):
        return _member(select, operand, field)
    if select.test_only:
        return lambda run, scope: _lookup(operand(run, scope), field, run, presence=True) is not _ABSENT

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        target = operand(run, scope)
        if type(target) is dict and field in target:
            return target[field]
        return _present(_lookup(target, field, run), field)

    return step


def _member(select: Select, operand: Step, field: str) -> Step:
    """Of a declared struct: what is null is absent, and what JSON has as text is what it means."""
    convert = conversion(select.type)
    if select.test_only:
        return lambda run, scope: _is_there(_lookup(operand(run, scope), field, run, presence=True))

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        target = operand(run, scope)
        found = target.get(field) if type(target) is dict else _lookup(target, field, run)
        if found is None or found is _ABSENT:
            raise EvaluationError(f"no such key: {field}")
        if type(found) is Optional and found.value is None:
            return NONE
        return found if convert is None else convert(found)

    return step


def _is_there(found: Any) -> bool:
    return found is not _ABSENT and found is not None


def _lookup(target: Any, key: Any, run: Run, *, presence: bool = False) -> Any:
    """The member or element, or ``_ABSENT``; an optional target gives an optional."""
    kind = type(target)
    if kind is Optional:
        found = _ABSENT if target is NONE else _lookup(target.value, key, run, presence=presence)
        if presence:
            return found
        return NONE if found is _ABSENT else Optional(found)
    if kind is dict:
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in (str, int, UInt, bool):
            raise no_such_overload()
        if key in (0, 1) and key in target:
            # Python takes true for 1, this language does not.
            run.spend_on_text(target)
            return next(
                (v for k, v in target.items() if k == key and (type(k) is bool) is (type(key) is bool)), _ABSENT
            )
        return target.get(key, _ABSENT)
    if kind is Lazy:
        return target.get(key)
    if kind is Message:
        return target.fields.get(key, _ABSENT)
    if kind is list:
        index = int(key) if type(key) is float and key.is_integer() else key
        if type(index) not in (int, UInt):
            raise EvaluationError(f"unsupported index type '{type(key).__name__}' in list")
        return target[index] if 0 <= index < len(target) else _ABSENT
    return _ABSENT


def _present(found: Any, key: Any, target: Any = None) -> Any:
    if found is not _ABSENT:
        return found
    raise EvaluationError(f"index out of bounds: {key}" if type(target) is list else f"no such key: {key}")


def _index(arguments: list[Step], nodes: Sequence[Node]) -> Step:
    operand, index = arguments[0], _within_another(nodes[1], arguments[1])

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        target, key = operand(run, scope), index(run, scope)
        if type(target) not in (dict, list, Lazy, Optional):
            raise no_such_overload()
        return _present(_lookup(target, key, run), key, target)

    return step


def _optional_lookup(arguments: list[Step], nodes: Sequence[Node]) -> Step:
    operand, index = arguments[0], _within_another(nodes[1], arguments[1])

    def step(run: Run, scope: Scope) -> Optional:
        target, key = operand(run, scope), index(run, scope)
        found = _lookup(target, key, run)
        if found is _ABSENT:
            return NONE
        run.cost += 1
        return found if type(target) is Optional else Optional(found)

    return step


# ------------------------------------------------------------------ logic


def _within_another(node: Node, step: Step) -> Step:
    """A variable or member as the index of another one, or in a choice, costs one less."""
    is_attribute = isinstance(node, Ident) or (isinstance(node, Select) and not node.test_only)
    if not is_attribute and not (isinstance(node, Call) and node.function in _LOOKUPS):
        return step

    def cheaper(run: Run, scope: Scope) -> Any:
        run.cost -= 1
        return step(run, scope)

    return cheaper


def _and(arguments: list[Step], _nodes: Sequence[Node]) -> Step:
    return _logic(arguments, decides=False)


def _or(arguments: list[Step], _nodes: Sequence[Node]) -> Step:
    return _logic(arguments, decides=True)


def _logic(arguments: list[Step], *, decides: bool) -> Step:
    left, right = arguments

    def step(run: Run, scope: Scope) -> bool:
        try:
            if _boolean(left(run, scope)) is decides:
                return decides
        except EvaluationError:
            # An error counts only if the other side does not settle it.
            if _boolean(right(run, scope)) is decides:
                return decides
            raise
        return _boolean(right(run, scope))

    return step


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_such_overload()


def _conditional(arguments: list[Step], nodes: Sequence[Node]) -> Step:
    condition = arguments[0]
    yes, no = (_within_another(*each) for each in zip(nodes[1:], arguments[1:], strict=True))
    return lambda run, scope: (yes if _boolean(condition(run, scope)) else no)(run, scope)


def _not_strictly_false(arguments: list[Step], _nodes: Sequence[Node]) -> Step:
    (argument,) = arguments

    def step(run: Run, scope: Scope) -> bool:
        run.cost += 1
        try:
            return argument(run, scope) is not False
        except EvaluationError:
            return True

    return step


def _equality(arguments: list[Step], *, wanted: bool, kind: Type | None = None) -> Step:
    left, right = arguments
    alike = _own_equality(kind) or same

    def step(run: Run, scope: Scope) -> bool:
        one, other = left(run, scope), right(run, scope)
        spend_on_equality(one, other, run)
        return alike(one, other, run) is wanted

    return step


def _in(arguments: list[Step], nodes: Sequence[Node]) -> Step:
    left, right = arguments
    is_constant = _constant_value(nodes[1]) is not _ABSENT

    def step(run: Run, scope: Scope) -> bool:
        item, among = left(run, scope), right(run, scope)
        if type(among) is dict:
            run.spend(1)
            return _lookup(among, item, run) is not _ABSENT
        if type(among) is not list:
            raise no_such_overload()
        if is_constant:
            run.work(len(among))
        else:
            run.spend(len(among))
        return any(same(item, each, run) for each in among)

    return step


def _or_else(arguments: list[Step], _nodes: Sequence[Node], *, is_value: bool = False) -> Step:
    """What is not there is looked for elsewhere, and only then."""
    found, other = arguments

    def step(run: Run, scope: Scope) -> Any:
        optional = found(run, scope)
        if type(optional) is not Optional:
            raise no_such_overload()
        if optional is NONE:
            return other(run, scope)
        return optional.value if is_value else optional

    return step


def _own_equality(kind: Type | None) -> Callable[[Any, Any, Run], bool] | None:
    """What equality is for a declared type that has its own."""
    return None if kind is None else getattr(kind.origin, "equality", None)


def _optional_member(found: Step, convert: Conversion | None) -> Step:
    """As :func:`_member`, for what may be absent."""

    def step(run: Run, scope: Scope) -> Any:
        value = found(run, scope)
        if value.value is None:
            return NONE
        return value if convert is None else convert(value)

    return step


def _own_join(arguments: list[Step], joined: Callable[[list[Any], list[Any], Run], list[Any]]) -> Step:
    left, right = arguments
    return lambda run, scope: joined(left(run, scope), right(run, scope), run)


# ------------------------------------------------------------------ calls


_SPECIAL: dict[str, Callable[[list[Step], Sequence[Node]], Step]] = {
    "_&&_": _and, "_||_": _or, "_?_:_": _conditional, "@not_strictly_false": _not_strictly_false,
    "@in": _in, "_[_]": _index, "_[?_]": _optional_lookup, "_?._": _optional_lookup,
    "or": _or_else, "orValue": partial(_or_else, is_value=True),
}  # fmt: skip


def _call(call: Call) -> Step:
    operands = [call.target, *call.args] if call.target is not None else list(call.args)
    arguments = []
    # Not in a comprehension, which would be one more frame for each level.
    for each in operands:
        arguments.append(build(each))  # noqa: PERF401
    if call.function in _EQUALITY:
        return _equality(arguments, wanted=_EQUALITY[call.function], kind=operands[0].type)
    if call.function == "_+_" and operands[0].type is not None and operands[0].type.kind == "list":
        joined = getattr(operands[0].type.origin, "join", None)
        if joined is not None:
            return _own_join(arguments, joined)
    if call.function in _SPECIAL:
        special = _SPECIAL[call.function](arguments, operands)
        if call.function == "_?._" and _is_struct(operands[0].type):
            return _optional_member(special, conversion(call.type))
        return special
    if call.function in _CONVERSIONS and len(operands) == 1 and isinstance(operands[0], Literal):
        return _converted(call, arguments)
    return _overloaded(call, arguments)


def _converted(call: Call, arguments: list[Step]) -> Step:
    """A constant, if the conversion of one succeeds."""
    step = _overloaded(call, arguments)
    try:
        value = step(Run(_FOLDING_LIMIT, {}), {})
    except (EvaluationError, OutOfBudget):
        return step
    return lambda _run, _scope: value


def _overloaded(call: Call, arguments: list[Step]) -> Step:
    is_member = call.target is not None
    overloads = [
        each
        for each in FUNCTIONS.get(call.function, ())
        if each.is_member is is_member and len(each.classes) == len(arguments)
    ]

    if call.function == "sum" and call.type is not None and call.type.kind in _ZEROS:
        return _sum(overloads[0].implementation, arguments[0], _ZEROS[call.type.kind])

    def step(run: Run, scope: Scope) -> Any:
        values = [argument(run, scope) for argument in arguments]
        for overload in overloads:
            if overload.takes(values):
                if overload.pays:
                    return overload.implementation(*values, run=run)
                run.spend(1)
                return overload.implementation(*values)
        raise no_such_overload()

    return step


def _sum(implementation: Implementation, items: Step, zero: Any) -> Step:
    """Of nothing it is the zero of the type."""

    def step(run: Run, scope: Scope) -> Any:
        values = items(run, scope)
        return implementation(values, run=run) if values else zero

    return step


# ------------------------------------------------------------------ literals and comprehensions


def _constant_value(node: Node) -> Any:
    """What a literal of literals is, or ``_ABSENT``."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, ListLiteral) and not node.optional:
        values = [_constant_value(each) for each in node.elements]
        return _ABSENT if _ABSENT in values else values
    if isinstance(node, MapLiteral) and not any(each.optional for each in node.entries):
        pairs = [(_constant_value(each.key), _constant_value(each.value)) for each in node.entries]
        keys = [key for key, _ in pairs]
        if all(type(key) is str for key in keys) and len(set(keys)) == len(keys):
            return _ABSENT if any(value is _ABSENT for _, value in pairs) else dict(pairs)
    return _ABSENT


def _list(literal: ListLiteral) -> Step:
    constant = _constant_value(literal)
    if constant is not _ABSENT:
        return lambda _run, _scope: constant
    elements = [build(each) for each in literal.elements]
    optional = literal.optional

    def step(run: Run, scope: Scope) -> list[Any]:
        run.spend(_LIST_COST)
        values = [element(run, scope) for element in elements]
        if not optional:
            return values
        return [
            value.value if place in optional else value
            for place, value in enumerate(values)
            if not (place in optional and value is NONE)
        ]

    return step


def _struct(literal: StructLiteral) -> Step:
    make = getattr(literal.type.origin, "make", None) if literal.type is not None else None
    if make is None:
        raise EvaluationError(f"unknown type: {literal.name}")
    entries = [(each.name, build(each.value), each.optional) for each in literal.entries]

    def step(run: Run, scope: Scope) -> Message:
        run.spend(_STRUCT_COST)
        fields: dict[str, Any] = {}
        for name, value_step, optional in entries:
            value = value_step(run, scope)
            if not optional:
                fields[name] = value
            elif value is not NONE:
                fields[name] = value.value
        made: Message = make(fields)
        return made

    return step


def _map(literal: MapLiteral) -> Step:
    constant = _constant_value(literal)
    if constant is not _ABSENT:
        return lambda _run, _scope: constant
    entries = [(build(each.key), build(each.value), each.optional) for each in literal.entries]

    def step(run: Run, scope: Scope) -> dict[Any, Any]:
        run.spend(_MAP_COST)
        found: dict[Any, Any] = {}
        for key_step, value_step, optional in entries:
            key, value = key_step(run, scope), value_step(run, scope)
            if type(key) not in (str, int, UInt, bool):
                raise EvaluationError("unsupported key type")
            if key in found:
                raise EvaluationError(f"Failed with repeated key: {key}")
            if not optional:
                found[key] = value
            elif value is not NONE:
                found[key] = value.value
        return found

    return step


def _comprehension(loop: Comprehension) -> Step:
    items, start, result = build(loop.iter_range), _beginning(loop.accu_init), build(loop.result)
    condition, item_name, so_far = build(loop.loop_condition), loop.iter_var, loop.accu_var
    advance = _appending(loop.loop_step, so_far) or build(loop.loop_step)
    second = loop.iter_var2

    def step(run: Run, scope: Scope) -> Any:
        among = items(run, scope)
        if type(among) not in (list, dict):
            raise no_such_overload()
        inner = {**scope, so_far: start(run, scope)}
        for item in _pairs(among) if second else among:
            before = run.cost
            if second:
                inner[item_name], inner[second] = item
            else:
                inner[item_name] = item
            if condition(run, inner) is False:
                break
            try:
                inner[so_far] = advance(run, inner)
            except EvaluationError as err:
                inner[so_far] = _Failed(err)
            if run.cost == before:
                # A turn that costs nothing takes its time all the same.
                run.work(1)
            elif run.cost > run.limit:
                run.reach_limit()
        return result(run, inner)

    return step


def _beginning(node: Node) -> Step:
    """What a loop begins with: a list or map of its own, as it may grow in place."""
    if isinstance(node, ListLiteral) and not node.elements:
        return lambda _run, _scope: []
    if isinstance(node, MapLiteral) and not node.entries:
        return lambda _run, _scope: {}
    return build(node)


def _pairs(among: list[Any] | dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return among.items() if isinstance(among, dict) else enumerate(among)


def _appending(step: Node, so_far: str) -> Step | None:
    """A step that appends to the list or map of a loop in place; else each turn would copy it."""
    if not isinstance(step, Call):
        return None
    if step.function == "_?_:_" and _is_name(step.args[2], so_far):
        condition, then = build(step.args[0]), _appending(step.args[1], so_far)
        if then is None:
            return None
        return lambda run, scope: then(run, scope) if _boolean(condition(run, scope)) else scope[so_far]
    if not step.args or not _is_name(step.args[0], so_far):
        return None
    if step.function == MAP_INSERT:
        return _inserting([build(each) for each in step.args[1:]], so_far)
    if step.function != "_+_" or not isinstance(step.args[1], ListLiteral):
        return None
    added = build(step.args[1])

    def append(run: Run, scope: Scope) -> Any:
        run.cost += 2
        grown = _so_far(scope, so_far)
        grown.extend(added(run, scope))
        return grown

    return append


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _so_far(scope: Scope, name: str) -> Any:
    grown = scope[name]
    if type(grown) is _Failed:
        raise grown.error
    return grown


def _inserting(arguments: list[Step], so_far: str) -> Step:
    """Puts a key with its value, or all of a map, into the map of a loop."""

    def insert(run: Run, scope: Scope) -> Any:
        run.cost += 2
        grown = _so_far(scope, so_far)
        found = [argument(run, scope) for argument in arguments]
        for key, value in [tuple(found)] if len(found) > 1 else list(found[0].items()):
            run.spend(1)
            if type(key) not in (str, int, UInt, bool):
                raise EvaluationError("unsupported key type")
            if key in grown:
                raise EvaluationError(f"insert failed: key {key} already exists")
            grown[key] = value
        return grown

    return insert


_ZEROS = {"uint": UInt(0), "double": 0.0, "duration": dt.timedelta()}
_EQUALITY = {"_==_": True, "_!=_": False}
_BUILDERS: dict[type[Node], Callable[[Any], Step]] = {
    Literal: _constant, Ident: _ident, Select: _select, Call: _call, ListLiteral: _list, MapLiteral: _map,
    StructLiteral: _struct, Comprehension: _comprehension,
}  # fmt: skip
