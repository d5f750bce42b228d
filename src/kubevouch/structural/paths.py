"""The JSONPaths of a definition: of printer columns, of scale, of selectable fields.

    PathError            a text is no path; ``str()`` says why

Columns take what kubectl's JSONPath takes between its braces; the others are plain names with dots between.

Source: k8s.io/client-go/util/jsonpath (Kubernetes 1.36).
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MAX_STEPS = 100
MAX_LOOKED_AT = 500
"""Values that the cells of one row look at. Several ``..`` behind each other would take any time over a deep object."""


class _Exhausted(Exception):
    """An evaluation has looked at too many values."""


class Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_LOOKED_AT

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Exhausted


_Step = Callable[[Any, Budget], Iterator[Any]]
_NAME = re.compile(r"(?:\\.|[^\\.\[\]\s(){}|,'\"$@*?:])+")
_KEY = re.compile(r"\s*(?:'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\")\s*")
_SLICE = re.compile(r"\s*(-?[0-9]+)?\s*(?:(:)\s*(-?[0-9]+)?\s*(?::\s*(-?[0-9]+)?)?)?\s*", re.ASCII)
_COMPARISON = re.compile(r"([!<>=]+)")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class PathError(ValueError):
    """A text is no path."""


def names(path: str) -> tuple[str, ...]:
    """The names of a plain path such as ``.spec.replicas``."""
    return tuple(path.removeprefix(".").split("."))


def value_at(tree: Any, path: tuple[str, ...]) -> Any:
    """What a tree has under these names; None for nothing."""
    for name in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def with_value(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of ``tree`` with ``value`` under these names; objects on the way are made."""
    first, *rest = path
    if not rest:
        return {**tree, first: value}
    below = tree.get(first)
    return {**tree, first: with_value(below if isinstance(below, dict) else {}, tuple(rest), value)}


class Path(msgspec.Struct, frozen=True):
    """A compiled path."""

    steps: tuple[_Step, ...]

    def first(self, tree: Any, budget: Budget) -> tuple[Any] | tuple[()]:
        """The first value that it finds, if ``budget`` lasts until there."""
        try:
            found = next(self.all(tree, budget), _NOTHING)
        except _Exhausted:
            return ()
        return () if found is _NOTHING else (found,)

    def some(self, tree: Any, budget: Budget, most: int) -> list[Any]:
        """The first ``most`` values, or fewer if ``budget`` ends before."""
        found: list[Any] = []
        with contextlib.suppress(_Exhausted):
            found.extend(itertools.islice(self.all(tree, budget), most))
        return found

    def all(self, tree: Any, budget: Budget) -> Iterator[Any]:
        """Raises :class:`_Exhausted`."""
        return self._walk(tree, 0, budget)

    def _walk(self, value: Any, at: int, budget: Budget) -> Iterator[Any]:
        if at == len(self.steps):
            yield value
            return
        for below in self.steps[at](value, budget):
            budget.spend()
            yield from self._walk(below, at + 1, budget)


_NOTHING: Any = object()


def parse(text: str) -> Path:
    """The path in ``text``, which has no braces around it. Raises :class:`PathError`."""
    steps: list[_Step] = []
    at = 0
    text = text.strip()
    if text[:1] in ("$", "@"):
        at = 1
    while at < len(text):
        if len(steps) > MAX_STEPS:
            raise PathError("path is too long")
        if text.startswith("..", at):
            steps.append(_below)
            at += 1 if text[at + 2 : at + 3] not in ("[", "") else 2
        elif text[at] == ".":
            step, at = _named(text, at + 1)
            steps.extend(step)
        elif text[at] == "[":
            end = _closing(text, at)
            steps.append(_bracket(text[at + 1 : end]))
            at = end + 1
        elif not steps and at == 0:
            step, at = _named(text, 0)
            steps.extend(step)
        else:
            raise PathError(f"unrecognized character in action: {text[at]!r}")
    return Path(tuple(steps))


def _named(text: str, at: int) -> tuple[list[_Step], int]:
    if text.startswith("*", at):
        return [_every], at + 1
    found = _NAME.match(text, at)
    if found is None:
        if at == len(text) or text[at] == "[":
            return [], at
        raise PathError(f"unrecognized character in action: {text[at]!r}")
    return [_member(re.sub(r"\\(.)", r"\1", found[0]))], found.end()


def _closing(text: str, at: int) -> int:
    depth, quote, index = 0, "", at
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if not depth:
                return index
        index += 1
    raise PathError("unterminated array")


def _bracket(inside: str) -> _Step:
    stripped = inside.strip()
    if stripped == "*":
        return _every
    if stripped.startswith("?(") and stripped.endswith(")"):
        return _filter(stripped[2:-1])
    key = _KEY.match(inside)
    if key is not None:
        keys = []
        at = 0
        while key is not None:
            keys.append(re.sub(r"\\(.)", r"\1", key[1] if key[1] is not None else key[2]))
            at = key.end()
            key = _KEY.match(inside, at + 1) if inside[at : at + 1] == "," else None
        if at != len(inside):
            raise PathError(f"invalid array index {inside}")
        return _union([_member(each) for each in keys])
    return _union([_index(part) for part in inside.split(",")])


def _member(name: str) -> _Step:
    def step(value: Any, _budget: Budget) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _union(steps: list[_Step]) -> _Step:
    def step(value: Any, budget: Budget) -> Iterator[Any]:
        for each in steps:
            yield from each(value, budget)

    return steps[0] if len(steps) == 1 else step


def _index(text: str) -> _Step:
    found = _SLICE.fullmatch(text)
    if found is None or not text.strip():
        raise PathError(f"invalid array index {text}")
    start, colon, end, stride = found.groups()
    if any(part is not None and len(part) > 18 for part in (start, end, stride)):
        raise PathError(f"invalid array index {text}")

    def one(value: Any, _budget: Budget) -> Iterator[Any]:
        at = int(start)
        if isinstance(value, list) and -len(value) <= at < len(value):
            yield value[at]

    def some(value: Any, _budget: Budget) -> Iterator[Any]:
        step = int(stride) if stride else 1
        if isinstance(value, list) and step > 0:
            yield from value[int(start) if start else None : int(end) if end else None : step]

    return some if colon else one


def _every(value: Any, _budget: Budget) -> Iterator[Any]:
    yield from _members(value)


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from (value[key] for key in sorted(value))


def _below(value: Any, budget: Budget) -> Iterator[Any]:
    """The value and all that is below it, itself first."""
    pending = [value]
    while pending:
        each = pending.pop()
        budget.spend()
        yield each
        if isinstance(each, (dict, list)):
            pending.extend(reversed(list(_members(each))))


def _filter(text: str) -> _Step:
    parts = _COMPARISON.split(text, maxsplit=1)
    left = _operand(parts[0])
    if len(parts) == 1:
        return lambda value, budget: (
            item for item in _items(value) if next(left(item, budget), _NOTHING) is not _NOTHING
        )
    if parts[1] not in _OPERATORS:
        raise PathError(f"unrecognized filter operator {parts[1]}")
    compare, right = _OPERATORS[parts[1]], _operand(parts[2])

    def step(value: Any, budget: Budget) -> Iterator[Any]:
        for item in _items(value):
            budget.spend()
            sides = next(left(item, budget), _NOTHING), next(right(item, budget), _NOTHING)
            try:
                if _NOTHING not in sides and compare(*sides):
                    yield item
            except TypeError:
                continue

    return step


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _operand(text: str) -> _Step:
    text = text.strip()
    if text.startswith(("@", "$")):
        return parse(text).all
    key = _KEY.fullmatch(text)
    if key is not None:
        return _constant(key[1] if key[1] is not None else key[2])
    if text in ("true", "false"):
        return _constant(text == "true")
    try:
        return _constant(float(text))
    except ValueError:
        raise PathError(f"unrecognized identifier {text}") from None


def _constant(value: Any) -> _Step:
    return lambda _value, _budget: iter((value,))
