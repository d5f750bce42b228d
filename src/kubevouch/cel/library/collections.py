"""Functions on lists, also as sets.

Source: k8s.io/apiserver/pkg/cel/library/lists.go, cel-go ext/sets.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

from kubevouch.cel.functions import FUNCTIONS, function, method
from kubevouch.cel.values import EvaluationError, Run, UInt, compare, equal, no_such_overload

_COMPARABLE = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_ADDABLE = ("int", "uint", "double", "duration")
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
    method("isSorted", f"list({_kind})", "bool")(_is_sorted)
    method("min", f"list({_kind})", _kind)(_least)
    method("max", f"list({_kind})", _kind)(_greatest)
for _kind in _ADDABLE:
    method("sum", f"list({_kind})", _kind)(_sum)


@method("indexOf", "list(dyn) dyn", "int")
def _index_of(items: list[Any], wanted: Any, *, run: Run) -> int:
    return next((place for place, item in enumerate(items) if equal(item, wanted, run)), -1)


@method("lastIndexOf", "list(dyn) dyn", "int")
def _last_index_of(items: list[Any], wanted: Any, *, run: Run) -> int:
    return next((place for place in reversed(range(len(items))) if equal(items[place], wanted, run)), -1)


def _among(item: Any, items: list[Any], run: Run) -> bool:
    return any(equal(item, each, run) for each in items)


@function("sets.contains", "list(dyn) list(dyn)", "bool")
def _contains(items: list[Any], wanted: list[Any], *, run: Run) -> bool:
    return all(_among(item, items, run) for item in wanted)


@function("sets.equivalent", "list(dyn) list(dyn)", "bool")
def _equivalent(left: list[Any], right: list[Any], *, run: Run) -> bool:
    return _contains(left, right, run=run) and _contains(right, left, run=run)


@function("sets.intersects", "list(dyn) list(dyn)", "bool")
def _intersects(left: list[Any], right: list[Any], *, run: Run) -> bool:
    return any(_among(item, right, run) for item in left)
