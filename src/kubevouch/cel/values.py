"""The values that expressions work on, and what holds for all of them: type, equality, order, size.

JSON's values are Python's own; int is the signed integer. What JSON has not has a class here.

Source: cel-spec doc/langdef.md; cel-go common/types (0.26, which Kubernetes 1.36 uses).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import msgspec

MAX_INT, MIN_INT, MAX_UINT = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1


class EvaluationError(Exception):
    """The evaluation ended without a value."""


class OutOfBudget(Exception):
    """The evaluation costs more than it may. No operator of the language absorbs it."""

    def __init__(self, text: str = "operation cancelled: actual cost limit exceeded") -> None:
        super().__init__(text)


class UInt(int):
    """An unsigned integer."""


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value."""

    name: str


class Optional(msgspec.Struct, frozen=True):
    """A value that may be absent; :data:`NONE` is."""

    value: Any


NONE: Final = Optional(Ellipsis)


class Opaque:
    """A value of a library. A subclass sets ``type_name`` and compares itself."""

    type_name: str


class Message(msgspec.Struct):
    """What a literal with a type's name made."""

    type_name: str
    fields: dict[str, Any]


class Lazy:
    """A map whose values are computed when they are first used.

    Args:
        compute: raises :class:`EvaluationError`.
    """

    __slots__ = ("_compute", "_known")

    def __init__(self, compute: Callable[[str], Any]) -> None:
        self._compute = compute
        self._known: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self._known:
            try:
                self._known[name] = self._compute(name)
            except EvaluationError as err:
                self._known[name] = err
        value = self._known[name]
        if isinstance(value, EvaluationError):
            raise value
        return value


class Run:
    """One evaluation: what it has cost so far, and the answers it may use.

    Args:
        limit: of the cost, and of the work that costs nothing.
    """

    __slots__ = ("answers", "cost", "limit", "unpaid")

    def __init__(self, limit: int, answers: Any) -> None:
        self.cost = 0
        self.unpaid = 0
        self.limit = limit
        self.answers = answers

    def spend(self, cost: int) -> None:
        """Raises :class:`OutOfBudget`."""
        self.cost += cost
        if self.cost > self.limit:
            self.reach_limit()

    def work(self, steps: int) -> None:
        """For what takes long and costs next to nothing in Kubernetes, such as comparing lists.

        Raises:
            OutOfBudget
        """
        self.unpaid += steps
        if self.unpaid > self.limit:
            self.reach_limit()

    def reach_limit(self) -> None:
        """Raises :class:`OutOfBudget`."""
        raise OutOfBudget

    def spend_on_text(self, *texts: Any) -> None:
        """The cost of going through texts, lists or maps once: a tenth of their sizes."""
        self.spend(-(-sum(map(size, texts)) // 10))


class PausingRun(Run):
    """One that pauses after each ``SLICE`` of its cost, so that others go first."""

    __slots__ = ("_pause", "_whole")

    SLICE: Final = 500

    def __init__(self, limit: int, answers: Any, pause: Callable[[], None]) -> None:
        super().__init__(min(limit, self.SLICE), answers)
        self._whole = limit
        self._pause = pause

    def reach_limit(self) -> None:
        spent = max(self.cost, self.unpaid)
        if spent > self._whole:
            raise OutOfBudget
        self._pause()
        self.limit = min(self._whole, spent + self.SLICE)


_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map",
    type(None): "null_type", TypeValue: "type", Optional: "optional_type", Lazy: "map",
    datetime.datetime: "google.protobuf.Timestamp", datetime.timedelta: "google.protobuf.Duration",
}  # fmt: skip
_GO_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int64", UInt: "uint64", float: "float64", str: "string", bytes: "[]uint8",
    list: "[]ref.Val", dict: "map[ref.Val]ref.Val", type(None): "structpb.NullValue",
    datetime.datetime: "time.Time", datetime.timedelta: "time.Duration",
}  # fmt: skip
_NUMBERS = (int, UInt, float)
# Going into a list or map to compare it takes about as long as three other steps.
_CONTAINER_WORK: Final = 3
_ORDERED = (bool, str, bytes, datetime.datetime, datetime.timedelta)


def type_name(value: Any) -> str:
    return _NAMES.get(type(value)) or value.type_name


def go_type(value: Any) -> str:
    """Go's name of the type of a value as cel-go holds it."""
    return _GO_NAMES.get(type(value), "interface {}")


def no_such_overload(*_: Any) -> EvaluationError:
    return EvaluationError("no such overload")


def size(value: Any) -> int:
    """The number of characters, bytes or elements; 1 for anything else."""
    return len(value) if type(value) in (str, bytes, list, dict) else 1


def integer(value: int) -> int:
    """Raises :class:`EvaluationError` beyond 64 bits."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("integer overflow")


def unsigned(value: int) -> UInt:
    """Raises :class:`EvaluationError` beyond 64 bits and below zero."""
    if 0 <= value <= MAX_UINT:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def quotient(left: int, right: int) -> int:
    """The whole part, towards zero. Raises :class:`EvaluationError` for a zero divisor."""
    if right == 0:
        raise EvaluationError("division by zero")
    magnitude = abs(left) // abs(right)
    return magnitude if (left < 0) is (right < 0) else -magnitude


def remainder(left: int, right: int) -> int:
    """What :func:`quotient` leaves. Raises :class:`EvaluationError` for a zero divisor."""
    if right == 0:
        raise EvaluationError("modulus by zero")
    return left - right * quotient(left, right)


def equal(left: Any, right: Any, run: Run) -> bool:
    """Whether two values of any types are equal; numbers are across their types."""
    spend_on_equality(left, right, run)
    return same(left, right, run)


def spend_on_equality(left: Any, right: Any, run: Run) -> None:
    """What it costs to compare two values, whatever is in them."""
    run.spend(1 if type(left) in _NUMBERS else -(-min(size(left), size(right)) // 10))


def same(left: Any, right: Any, run: Run) -> bool:
    """As :func:`equal`, at no cost."""
    kind = type(left)
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and left == right
    if kind is not type(right):
        return False
    if kind is list:
        run.work(_CONTAINER_WORK + len(left))
        return len(left) == len(right) and all(same(*pair, run) for pair in zip(left, right, strict=True))
    if kind is dict:
        run.work(_CONTAINER_WORK + len(left))
        return len(left) == len(right) and all(
            key in right and same(value, right[key], run) for key, value in left.items()
        )
    if kind is Message:
        return left.type_name == right.type_name and same(left.fields, right.fields, run)
    if kind is Optional:
        return left is right if NONE in (left, right) else same(left.value, right.value, run)
    run.work(min(size(left), size(right)) // 10)
    return bool(left == right)


def compare(left: Any, right: Any, run: Run) -> int:
    """-1, 0 or 1; a NaN is never equal and gives 2. Raises :class:`EvaluationError` for what has no order."""
    kind = type(left)
    if not (kind in _NUMBERS and type(right) in _NUMBERS) and not (kind is type(right) and kind in _ORDERED):
        raise no_such_overload()
    run.spend(-(-min(size(left), size(right)) // 10))
    if kind is int and not MIN_INT <= left <= MAX_INT:
        raise EvaluationError("integer overflow")
    return -1 if left < right else 1 if left > right else 0 if left == right else 2


def plain(value: Any, run: Run) -> Any:
    """A copy in Python's own types. Raises :class:`EvaluationError` for a value that only expressions can use."""
    run.spend(1 + size(value))
    kind = type(value)
    if kind is list:
        return [plain(each, run) for each in value]
    if kind is dict:
        return {key: plain(each, run) for key, each in value.items()}
    if kind is Message:
        return {key: plain(each, run) for key, each in value.fields.items()}
    if kind is UInt:
        return int(value)
    if kind in (bool, int, float, str, bytes, type(None), datetime.datetime, datetime.timedelta):
        return value
    raise EvaluationError(f"a value of type {type_name(value)} cannot be used here")
