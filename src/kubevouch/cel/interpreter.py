"""The interpreter: a checked syntax tree becomes a function of a run and a scope, with every step paid for.

The costs are those of cel-go where they bound the work; where cel-go charges one for what takes longer (deep equality,
joining lists) every element is charged, so that a budget is a bound on time.

Source: cel-go interpreter/{interpretable,attributes,runtimecost}.go, common/cost.go (0.26).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubevouch.cel.functions import FUNCTIONS
from kubevouch.cel.values import (
    NONE,
    EvaluationError,
    Lazy,
    Optional,
    Run,
    TypeValue,
    UInt,
    equal,
    no_such_overload,
)

Scope = dict[str, Any]
Step = Callable[[Run, Scope], Any]

_LIST_COST, _MAP_COST = 10, 30


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a comprehension holds after a turn that failed: a later turn may still settle it."""

    error: EvaluationError


_ABSENT = object()
_TYPES = {
    name: TypeValue(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type",
                 "google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type")
}  # fmt: skip


def build(expression: Any) -> Step:
    """The step for an ``Expr`` message of :mod:`kubevouch.cel.syntax`."""
    kind = expression.WhichOneof("kind")
    return _BUILDERS[kind](getattr(expression, kind))


def _constant(constant: Any) -> Step:
    kind = constant.WhichOneof("kind")
    value: Any = None if kind == "null_value" else getattr(constant, kind)
    if kind == "uint64_value":
        value = UInt(value)
    return lambda _run, _scope: value


def _ident(ident: Any) -> Step:
    name = ident.name

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        value = scope.get(name, _ABSENT)
        if type(value) is _Failed:
            raise value.error
        if value is not _ABSENT:
            return value
        if name in _TYPES:
            return _TYPES[name]
        raise EvaluationError(f"no such attribute(s): {name}")

    return step


# ------------------------------------------------------------------ members and elements


def _select(select: Any) -> Step:
    operand, field = build(select.operand), select.field
    if select.test_only:
        return lambda run, scope: _lookup(operand(run, scope), field, run, presence=True) is not _ABSENT

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        target = operand(run, scope)
        if type(target) is dict and field in target:
            return target[field]
        return _present(_lookup(target, field, run), field)

    return step


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


def _index(arguments: list[Step]) -> Step:
    operand, index = arguments

    def step(run: Run, scope: Scope) -> Any:
        run.cost += 1
        target, key = operand(run, scope), index(run, scope)
        if type(target) not in (dict, list, Lazy, Optional):
            raise no_such_overload()
        return _present(_lookup(target, key, run), key, target)

    return step


def _optional_lookup(arguments: list[Step]) -> Step:
    operand, index = arguments

    def step(run: Run, scope: Scope) -> Optional:
        run.cost += 1
        target, key = operand(run, scope), index(run, scope)
        found = _lookup(target, key, run)
        if found is _ABSENT:
            return NONE
        return found if type(target) is Optional else Optional(found)

    return step


# ------------------------------------------------------------------ logic


def _and(arguments: list[Step]) -> Step:
    return _logic(arguments, decides=False)


def _or(arguments: list[Step]) -> Step:
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


def _conditional(arguments: list[Step]) -> Step:
    condition, yes, no = arguments
    return lambda run, scope: (yes if _boolean(condition(run, scope)) else no)(run, scope)


def _not_strictly_false(arguments: list[Step]) -> Step:
    (argument,) = arguments

    def step(run: Run, scope: Scope) -> bool:
        try:
            return argument(run, scope) is not False
        except EvaluationError:
            return True

    return step


def _equality(arguments: list[Step], *, wanted: bool) -> Step:
    left, right = arguments
    return lambda run, scope: equal(left(run, scope), right(run, scope), run) is wanted


def _in(arguments: list[Step]) -> Step:
    left, right = arguments

    def step(run: Run, scope: Scope) -> bool:
        run.spend(1)
        item, among = left(run, scope), right(run, scope)
        if type(among) is dict:
            return _lookup(among, item, run) is not _ABSENT
        if type(among) is not list:
            raise no_such_overload()
        return any(equal(item, each, run) for each in among)

    return step


# ------------------------------------------------------------------ calls


_SPECIAL: dict[str, Callable[[list[Step]], Step]] = {
    "_&&_": _and, "_||_": _or, "_?_:_": _conditional, "@not_strictly_false": _not_strictly_false,
    "_==_": lambda arguments: _equality(arguments, wanted=True),
    "_!=_": lambda arguments: _equality(arguments, wanted=False),
    "@in": _in, "_[_]": _index, "_[?_]": _optional_lookup, "_?._": _optional_lookup,
}  # fmt: skip


def _call(call: Any) -> Step:
    is_member = call.HasField("target")
    arguments = [build(each) for each in ((call.target, *call.args) if is_member else call.args)]
    if call.function in _SPECIAL:
        return _SPECIAL[call.function](arguments)
    overloads = [
        each
        for each in FUNCTIONS.get(call.function, ())
        if each.is_member is is_member and len(each.parameters) == len(arguments)
    ]

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


# ------------------------------------------------------------------ literals and comprehensions


def _list(literal: Any) -> Step:
    elements = [build(each) for each in literal.elements]
    optional = frozenset(literal.optional_indices)

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


def _map(literal: Any) -> Step:
    if literal.message_name:
        # Kubernetes has no messages that an expression could make.
        raise EvaluationError(f"unknown type: {literal.message_name}")
    entries = [(build(each.map_key), build(each.value), each.optional_entry) for each in literal.entries]

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


def _comprehension(loop: Any) -> Step:
    items, start, result = build(loop.iter_range), build(loop.accu_init), build(loop.result)
    condition, item_name, so_far = build(loop.loop_condition), loop.iter_var, loop.accu_var
    advance = _appending(loop.loop_step, so_far) or build(loop.loop_step)

    def step(run: Run, scope: Scope) -> Any:
        among = items(run, scope)
        if type(among) not in (list, dict):
            raise no_such_overload()
        inner = {**scope, so_far: start(run, scope)}
        for item in among:
            run.spend(1)
            inner[item_name] = item
            if condition(run, inner) is False:
                break
            try:
                inner[so_far] = advance(run, inner)
            except EvaluationError as err:
                inner[so_far] = _Failed(err)
        return result(run, inner)

    return step


def _appending(step: Any, so_far: str) -> Step | None:
    """A step that appends to the list of a ``map`` or ``filter`` in place; else each turn would copy it."""
    kind = step.WhichOneof("kind")
    if kind != "call_expr":
        return None
    call = step.call_expr
    if call.function == "_?_:_" and call.args[2].ident_expr.name == so_far:
        condition, then = build(call.args[0]), _appending(call.args[1], so_far)
        if then is None:
            return None
        return lambda run, scope: then(run, scope) if _boolean(condition(run, scope)) else scope[so_far]
    if call.function != "_+_" or call.args[0].ident_expr.name != so_far:
        return None
    if call.args[1].WhichOneof("kind") != "list_expr":
        return None
    added = build(call.args[1])

    def append(run: Run, scope: Scope) -> Any:
        run.cost += 1
        grown = scope[so_far]
        if type(grown) is _Failed:
            raise grown.error
        grown.extend(added(run, scope))
        return grown

    return append


_BUILDERS: dict[str, Callable[[Any], Step]] = {
    "const_expr": _constant, "ident_expr": _ident, "select_expr": _select, "call_expr": _call, "list_expr": _list,
    "struct_expr": _map, "comprehension_expr": _comprehension,
}  # fmt: skip
