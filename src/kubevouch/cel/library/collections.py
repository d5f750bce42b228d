"""Functions on lists, also as sets.

Source: k8s.io/apiserver/pkg/cel/library/lists.go, cel-go ext/{sets,lists}.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
from typing import Any

from kubevouch.cel.functions import FUNCTIONS, function, method
from kubevouch.cel.macros import SORT_BY_KEYS
from kubevouch.cel.values import EvaluationError, Run, UInt, compare, equal, no_such_overload

_COMPARABLE = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_ADDABLE = ("int", "uint", "double", "duration")
_MOST_NUMBERS = 10_000_000
_ALLOCATION = 11
_ZEROS: dict[type, Any] = {int: 0, UInt: UInt(0), float: 0.0, dt.timedelta: dt.timedelta()}


def _is_sorted(items: list[Any], *, run: Run) -> bool:
    return all(compare(left, right, run) in (-1, 0) for left, right in itertools.pairwise(items))


def _least(items: list[Any], *, run: Run) -> Any:
    return _extreme(items, -1, "min", run)


def _greatest(items: list[Any], *, run: Run) -> Any:
    return _extreme(items, 1, "max", run)


def _extreme(items: list[Any], sign: int, name: str, run: Run) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        run.spend(1)
        if compare(item, best, run) == sign:
            best = item
    return best


def _sum(items: list[Any], *, run: Run) -> Any:
    if not items:
        return 0
    total = _ZEROS.get(type(items[0]))
    add = next((each for each in FUNCTIONS["_+_"] if total is not None and each.takes((total, total))), None)
    for item in items:
        run.spend(1)
        if add is None or type(item) is not type(total):
            raise no_such_overload()
        total = add.implementation(total, item)
    return total


# The compiler learns the type of the result from that of the elements.
for _kind in _COMPARABLE:
    method("isSorted", f"list({_kind})")(_is_sorted)
    method("min", f"list({_kind})")(_least)
    method("max", f"list({_kind})")(_greatest)
for _kind in _ADDABLE:
    method("sum", f"list({_kind})")(_sum)


@method("indexOf", "list(dyn) dyn")
def _index_of(items: list[Any], wanted: Any, *, run: Run) -> int:
    return next((place for place, item in enumerate(items) if equal(item, wanted, run)), -1)


@method("lastIndexOf", "list(dyn) dyn")
def _last_index_of(items: list[Any], wanted: Any, *, run: Run) -> int:
    return next((place for place in reversed(range(len(items))) if equal(items[place], wanted, run)), -1)


def _among(item: Any, items: list[Any], run: Run) -> bool:
    return any(equal(item, each, run) for each in items)


@function("sets.contains", "list(dyn) list(dyn)")
def _contains(items: list[Any], wanted: list[Any], *, run: Run) -> bool:
    return all(_among(item, items, run) for item in wanted)


@function("sets.equivalent", "list(dyn) list(dyn)")
def _equivalent(left: list[Any], right: list[Any], *, run: Run) -> bool:
    return _contains(left, right, run=run) and _contains(right, left, run=run)


@function("sets.intersects", "list(dyn) list(dyn)")
def _intersects(left: list[Any], right: list[Any], *, run: Run) -> bool:
    return any(_among(item, right, run) for item in left)


# ------------------------------------------------------------------ lists of lists


@method("slice", "list(dyn) int int")
def _slice(items: list[Any], start: int, end: int, *, run: Run) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"{call}, list is length {len(items)}")
    run.spend(_ALLOCATION + end - start)
    return items[start:end]


@method("flatten", "list(dyn)")
def _flatten(items: list[Any], *, run: Run) -> list[Any]:
    return _flatten_to(items, 1, run=run)


@method("flatten", "list(dyn) int")
def _flatten_to(items: list[Any], depth: int, *, run: Run) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    run.spend(_ALLOCATION)
    flat: list[Any] = []
    _flatten_into(flat, items, depth, run)
    return flat


def _flatten_into(flat: list[Any], items: list[Any], depth: int, run: Run) -> None:
    for item in items:
        run.spend(1)
        if depth > 0 and type(item) is list:
            _flatten_into(flat, item, depth - 1, run)
        else:
            flat.append(item)


@function("lists.range", "int")
def _range(count: int, *, run: Run) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MOST_NUMBERS:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_MOST_NUMBERS})")
    run.spend(_ALLOCATION + count)
    return list(range(count))


@method("reverse", "list(dyn)")
def _reverse(items: list[Any], *, run: Run) -> list[Any]:
    run.spend(_ALLOCATION + len(items))
    return items[::-1]


@method("distinct", "list(dyn)")
def _distinct(items: list[Any], *, run: Run) -> list[Any]:
    run.spend(_ALLOCATION)
    found: list[Any] = []
    for item in items:
        if not _among(item, found, run):
            found.append(item)
    return found


@method("sort", "list(dyn)")
def _sort(items: list[Any], *, run: Run) -> list[Any]:
    return _sort_by(items, items, run=run)


@method(SORT_BY_KEYS, "list list")
def _sort_by(items: list[Any], keys: list[Any], *, run: Run) -> list[Any]:
    run.spend(_ALLOCATION)
    for key in keys:
        if type(key) is not type(keys[0]):
            raise EvaluationError("list elements must have the same type")

    def order(left: int, right: int) -> int:
        return compare(keys[left], keys[right], run)

    return [items[place] for place in sorted(range(len(keys)), key=functools.cmp_to_key(order))]
