"""What the functions of libraries cost at worst, by the sizes of what they are given.

A range of sizes or costs is a pair of the least and the greatest, both at most 2^64 - 1.

Source: k8s.io/apiserver/pkg/cel/library/cost.go (Kubernetes 1.36), cel-go common/cost.go, ext/{sets,lists}.go (0.26).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from kubevouch.cel.tree import Literal, Node
from kubevouch.cel.types import Type

MOST: Final = (1 << 64) - 1

Range = tuple[int, int]
Path = tuple[str, ...]

TEXT, PATTERN = 0.1, 0.25
"""For each character of a text that is gone through, and of a pattern."""

LIST: Final = 10
UNKNOWN: Final = (0, MOST)
ONE: Final = (1, 1)
NOTHING: Final = (0, 0)
_LONGEST_FORMAT_PATTERN: Final = 128
_LONGEST_FORMAT: Final = 64


def add(*ranges: Range) -> Range:
    return min(sum(each[0] for each in ranges), MOST), min(sum(each[1] for each in ranges), MOST)


def times(left: Range, right: Range) -> Range:
    return min(left[0] * right[0], MOST), min(left[1] * right[1], MOST)


def scaled(size: Range, factor: float) -> Range:
    return _scale(size[0], factor), _scale(size[1], factor)


def _scale(size: int, factor: float) -> int:
    # As floating-point numbers, whose rounding is part of the result.
    if size > 0 and factor > 0 and float(size) > float(MOST) / factor:
        return MOST
    return min(math.ceil(float(size) * factor), MOST)


def union(left: Range, right: Range) -> Range:
    return min(left[0], right[0]), max(left[1], right[1])


class Operand(msgspec.Struct, frozen=True):
    """What a function's estimate knows of an argument."""

    node: Node | None
    type: Type
    path: Path | None
    size: Range | None


class Estimate(msgspec.Struct, frozen=True):
    """What a call costs, and how large its result is where that is known."""

    cost: Range
    size: Range | None = None


class Sizes(Protocol):
    """What a schema says of the values below a variable."""

    def declared_size(self, path: Path | None) -> Range | None:
        """How large the value can be to which the path leads; None if the schema has none there."""


# ------------------------------------------------------------------ Kubernetes' functions

_Function = Callable[[Sizes, str, Operand | None, Sequence[Operand]], Estimate | None]


def _size_of(sizes: Sizes, operand: Operand) -> Range:
    return operand.size or sizes.declared_size(operand.path) or UNKNOWN


def _element(operand: Operand) -> Operand | None:
    if not operand.type.parameters:
        return None
    path = None if operand.path is None else (*operand.path, "@items")
    return Operand(None, operand.type.parameters[0], path, None)


def _once(_sizes: Sizes, _overload: str, _target: Operand | None, _args: Sequence[Operand]) -> Estimate:
    return Estimate(ONE)


def _traversal(sizes: Sizes, _overload: str, target: Operand | None, _args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    size, element = _size_of(sizes, target), _element(target)
    if element is None:
        return Estimate(scaled(size, TEXT))
    each = ONE
    if element.type.kind in ("string", "bytes"):
        each = add(each, scaled(_size_of(sizes, element), TEXT))
    return Estimate(times(size, each))


def _url(sizes: Sizes, _overload: str, _target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if len(args) != 1:
        return None
    size = _size_of(sizes, args[0])
    return Estimate(scaled(size, TEXT), size)


def _same_length(sizes: Sizes, _overload: str, target: Operand | None, _args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    size = _size_of(sizes, target)
    return Estimate(scaled(size, TEXT), size)


def _replace(sizes: Sizes, _overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = _size_of(sizes, target), _size_of(sizes, args[0]), _size_of(sizes, args[1])
    most_count = most_kept = least_count = least_kept = 0
    if old[0] == 0:
        # Nothing stands between all characters.
        most_count, most_kept = min(size[1] + 1, MOST), size[1]
    elif new[1] <= old[0]:
        most_kept = size[1]
    else:
        most_count = math.ceil(float(size[1]) / float(old[0]))
    if old[1] == 0:
        least_count, least_kept = min(size[0] + 1, MOST), size[0]
    elif old[1] <= new[0]:
        least_kept = size[0]
    else:
        least_count = math.ceil(float(size[0]) / float(old[1]))
    made = add(times((least_count, min(most_count, MOST)), new), (least_kept, most_kept))
    return Estimate(scaled(size, 2 * TEXT), made)


def _split(sizes: Sizes, _overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    size = _size_of(sizes, target)
    most = size[1]
    count = args[1].node if len(args) > 1 else None
    if isinstance(count, Literal) and type(count.value) is int:
        most = count.value % (MOST + 1)
    return Estimate(scaled(size, 2 * TEXT), (0, most))


def _join(sizes: Sizes, _overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    items, element, size = _size_of(sizes, target), _element(target), NOTHING
    if element is not None:
        size = times(items, _size_of(sizes, element))
    if args:
        gaps = (max(items[0] - 1, 0), max(items[1] - 1, 0))
        size = add(size, times(_size_of(sizes, args[0]), gaps))
    return Estimate(scaled(size, TEXT), size)


def _find(sizes: Sizes, _overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None or not args:
        return None
    size = _size_of(sizes, target)
    pattern = scaled(_size_of(sizes, args[0]), PATTERN)
    return Estimate(times(scaled(add(size, ONE), TEXT), pattern), (0, size[1]))


def _ip(_sizes: Sizes, _overload: str, target: Operand | None, _args: Sequence[Operand]) -> Estimate | None:
    return None if target is None else Estimate(ONE)


_ADDRESS: Final = (4, 16)


def _contains_address(sizes: Sizes, overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None or not args:
        return None
    cost = scaled(add(_ADDRESS, _ADDRESS), TEXT)
    if overload.startswith("cidr_contains_cidr"):
        cost = add(cost, scaled(_ADDRESS, TEXT), ONE)
    if overload.endswith("_string"):
        cost = add(cost, scaled(_size_of(sizes, args[0]), TEXT))
    return Estimate(cost)


def _validate(sizes: Sizes, _overload: str, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    text = scaled(_size_of(sizes, args[0]), TEXT)
    return Estimate(scaled(text, _LONGEST_FORMAT_PATTERN * PATTERN))


def _equality(_sizes: Sizes, _overload: str, _target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    left, right = args
    if left.type != right.type:
        return None
    if left.type.name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"):
        return Estimate(ONE)
    if left.type.name == "kubernetes.NamedFormat":
        return Estimate(scaled((1, _LONGEST_FORMAT), TEXT))
    if left.type.name == "kubernetes.URL":
        most = 1 if right.size is None else right.size[1]
        return Estimate(scaled((1, most), TEXT))
    return None


FUNCTIONS: Final[dict[str, _Function]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_length),
    "replace": _replace, "split": _split, "join": _join, "find": _find, "findAll": _find, "ip": _ip,
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_address),
    "validate": _validate, "_==_": _equality,
    **dict.fromkeys(
        (
            "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
            "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
            "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
            "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
        ),
        _once,
    ),
}  # fmt: skip

# ------------------------------------------------------------------ signatures with an estimate of their own

_Overload = Callable[[Sizes, Operand | None, Sequence[Operand]], Estimate | None]


def _made(factor: float, size: Range) -> Estimate:
    """A list that is made in so many steps for each item of that size."""
    return Estimate(add(scaled(size, factor), ONE, (LIST, LIST)), size)


def _number(operand: Operand, otherwise: int) -> int:
    node = operand.node
    if isinstance(node, Literal) and type(node.value) is int and node.value >= 0:
        return node.value
    return otherwise


def _sets(factor: float) -> _Overload:
    def compared(sizes: Sizes, _target: Operand | None, args: Sequence[Operand]) -> Estimate:
        product = times(_size_of(sizes, args[0]), _size_of(sizes, args[1]))
        return Estimate(add(scaled(product, factor), ONE))

    return compared


def _slice(sizes: Sizes, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    end = _number(args[1], _size_of(sizes, target)[1])
    # The difference wraps around in cel-go.
    size = (end - _number(args[0], 0)) % (MOST + 1)
    return _made(1, (size, size))


def _range(_sizes: Sizes, _target: Operand | None, args: Sequence[Operand]) -> Estimate:
    size = _number(args[0], MOST)
    return _made(1, (size, size))


def _reverse(sizes: Sizes, target: Operand | None, _args: Sequence[Operand]) -> Estimate | None:
    return None if target is None else _made(1, _size_of(sizes, target))


def _flatten(sizes: Sizes, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    return _made(float(_number(args[0], MOST)) if args else 1, _size_of(sizes, target))


def _distinct(sizes: Sizes, target: Operand | None, _args: Sequence[Operand]) -> Estimate | None:
    if target is None:
        return None
    size = _size_of(sizes, target)
    return _made(2, times(size, size))


def _sort(kind: str, *, by: bool) -> _Overload:
    factor = 2 + TEXT if kind in ("string", "bytes") else 2

    def sorted_by(sizes: Sizes, target: Operand | None, args: Sequence[Operand]) -> Estimate | None:
        if target is None:
            return None
        size = _size_of(sizes, args[0] if by else target)
        return _made(factor, times(size, size))

    return sorted_by


OVERLOADS: Final[dict[str, _Overload]] = {
    "list_sets_contains_list": _sets(1), "list_sets_intersects_list": _sets(1), "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice, "lists_range": _range, "list_reverse": _reverse, "list_flatten": _flatten,
    "list_flatten_int": _flatten, "list_distinct": _distinct,
    **{
        f"list_{kind}_{name}": _sort(kind, by=name != "sort")
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for name in ("sort", "sortByAssociatedKeys")
    },
}  # fmt: skip
