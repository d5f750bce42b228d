"""The operators and conversions of the language itself.

Source: cel-spec doc/langdef.md; cel-go common/types and common/stdlib (0.26).
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kubevouch.cel.functions import function, method
from kubevouch.cel.regular_expressions import compiled
from kubevouch.cel.values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    EvaluationError,
    Run,
    TypeValue,
    UInt,
    compare,
    integer,
    no_such_overload,
    quotient,
    remainder,
    size,
    type_name,
    unsigned,
)
from kubevouch.machinery.text.gotext import parse_duration
from kubevouch.machinery.text.times import parse_go_rfc3339

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LEAST_MOMENT, _GREATEST_MOMENT = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
# Where Go's shortest form of a double begins to have an exponent.
_EXPONENT_FROM = 6
_LONGEST = dt.timedelta(microseconds=MAX_INT // 1000)

# ------------------------------------------------------------------ arithmetic


def _arithmetic(name: str, apply: Callable[[Any, Any], Any], kinds: str = "int uint double") -> None:
    bounds: dict[str, Callable[[Any], Any]] = {"int": integer, "uint": unsigned, "double": float}
    for kind in kinds.split():

        def calculate(left: Any, right: Any, bound: Callable[[Any], Any] = bounds[kind]) -> Any:
            return bound(apply(left, right))

        function(name, f"{kind} {kind}")(calculate)


_arithmetic("_+_", operator.add)
_arithmetic("_-_", operator.sub)
_arithmetic("_*_", operator.mul)


_arithmetic("_/_", quotient, "int uint")
_arithmetic("_%_", remainder, "int uint")


@function("_/_", "double double")
def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    sign = math.copysign(1, left) * math.copysign(1, right)
    return math.nan if left == 0 or math.isnan(left) else sign * math.inf


function("-_", "int")(lambda value: integer(-value))
function("-_", "double")(operator.neg)


@function("!_", "bool")
def _not(value: bool) -> bool:
    return not value


@function("_+_", "string string")
@function("_+_", "bytes bytes")
def _join(left: Any, right: Any, *, run: Run) -> Any:
    run.spend(1)
    run.spend_on_text(left, right)
    return left + right


@function("_+_", "list list")
def _join_lists(left: list[Any], right: list[Any], *, run: Run) -> list[Any]:
    run.spend(1)
    run.work(len(left) + len(right))
    return left + right


def _time(calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def bounded(left: Any, right: Any) -> Any:
        try:
            value = calculate(left, right)
        except OverflowError as err:
            raise EvaluationError("timestamp overflow") from err
        if isinstance(value, dt.timedelta) and abs(value) > _LONGEST:
            raise EvaluationError("duration overflow")
        return value

    return bounded


for _parameters in ("timestamp duration", "duration timestamp", "duration duration"):
    function("_+_", _parameters)(_time(operator.add))
for _parameters in ("timestamp duration", "timestamp timestamp", "duration duration"):
    function("_-_", _parameters)(_time(operator.sub))
function("-_", "duration")(operator.neg)


def _ordering(name: str, holds: frozenset[int]) -> None:
    def ordered(left: Any, right: Any, *, run: Run) -> bool:
        return compare(left, right, run) in holds

    function(name, "dyn dyn")(ordered)


_ordering("_<_", frozenset({-1}))
_ordering("_<=_", frozenset({-1, 0}))
_ordering("_>_", frozenset({1}))
_ordering("_>=_", frozenset({0, 1}))

# ------------------------------------------------------------------ texts


@function("size", "dyn")
@method("size", "dyn")
def _size(value: Any) -> int:
    if type(value) not in (str, bytes, list, dict):
        raise no_such_overload()
    return len(value)


@method("contains", "string string")
def _contains(text: str, part: str, *, run: Run) -> bool:
    run.spend(1)
    run.spend(-(-len(text) // 10) * -(-len(part) // 10))
    return part in text


@method("startsWith", "string string")
def _starts_with(text: str, part: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    return text.startswith(part)


@method("endsWith", "string string")
def _ends_with(text: str, part: str, *, run: Run) -> bool:
    run.spend_on_text(text)
    return text.endswith(part)


@function("matches", "string string")
@method("matches", "string string")
def _matches(text: str, pattern: str, *, run: Run) -> bool:
    return compiled(pattern, text, run).search(text) is not None


# ------------------------------------------------------------------ conversions


@function("type", "dyn")
def _type(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


@function("dyn", "dyn")
def _dyn(value: Any) -> Any:
    return value


@function("int", "dyn")
def _int(value: Any, *, run: Run) -> int:
    run.spend_on_text(value)
    if type(value) in (int, UInt):
        return integer(int(value))
    if type(value) is float and -(2.0**63) < value < 2.0**63:
        return int(value)
    if type(value) is float:
        raise EvaluationError("integer overflow")
    if type(value) is str:
        return _parsed_int(value, "int", MIN_INT, MAX_INT)
    if type(value) is dt.datetime:
        return (value - _EPOCH) // dt.timedelta(seconds=1)
    raise no_such_overload()


@function("uint", "dyn")
def _uint(value: Any, *, run: Run) -> UInt:
    run.spend_on_text(value)
    if type(value) in (int, UInt):
        return unsigned(value)
    if type(value) is float and 0 <= value < 2.0**64:
        return UInt(int(value))
    if type(value) is float:
        raise EvaluationError("unsigned integer overflow")
    if type(value) is str:
        return UInt(_parsed_int(value, "uint", 0, MAX_UINT))
    raise no_such_overload()


def _parsed_int(text: str, kind: str, least: int, greatest: int) -> int:
    digits = text[1:] if text[:1] in ("-", "+") and least else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 30 or not least <= int(text) <= greatest:
        raise EvaluationError(f"type conversion error from 'string' to '{kind}'")
    return int(text)


@function("double", "dyn")
def _double(value: Any, *, run: Run) -> float:
    run.spend_on_text(value)
    if type(value) in (int, UInt, float):
        return float(value)
    if type(value) is not str:
        raise no_such_overload()
    try:
        if "_" in value or value != value.strip():
            raise ValueError(value)
        return float(value)
    except ValueError as err:
        raise EvaluationError("type conversion error from 'string' to 'double'") from err


@function("string", "dyn")
def to_string(value: Any, *, run: Run) -> str:
    """The language's text of a scalar, a time, or a library's value that has one."""
    run.spend_on_text(value)
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, UInt):
        return str(int(value))
    if type(value) is float:
        return _double_text(value)
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError as err:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from err
    if type(value) is dt.datetime:
        fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
        zone = "" if value.utcoffset() else "Z"
        whole = value.replace(microsecond=0, tzinfo=None).isoformat()
        return f"{whole}{fraction}{zone or value.isoformat()[-6:]}"
    if type(value) is dt.timedelta:
        seconds = Decimal(value // dt.timedelta(microseconds=1)).scaleb(-6)
        return f"{seconds.normalize():f}s"
    if hasattr(value, "text"):
        return str(value.text)
    raise no_such_overload()


def _double_text(value: float) -> str:
    """Go's ``%g``."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    exact = Decimal(repr(value)).normalize()
    if value and not -4 <= exact.adjusted() < _EXPONENT_FROM:
        digits, _, exponent = f"{exact:e}".partition("e")
        return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"
    return f"{exact:f}"


@function("bytes", "dyn")
def _bytes(value: Any, *, run: Run) -> bytes:
    run.spend_on_text(value)
    if type(value) is str:
        return value.encode()
    if type(value) is bytes:
        return value
    raise no_such_overload()


@function("bool", "dyn")
def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise no_such_overload()
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise EvaluationError("type conversion error from 'string' to 'bool'")


@function("timestamp", "dyn")
def _timestamp(value: Any, *, run: Run) -> dt.datetime:
    run.spend(1)
    run.work(size(value))
    return to_timestamp(value)


def to_timestamp(value: Any) -> dt.datetime:
    """A moment from its RFC 3339 text or its seconds since 1970."""
    if type(value) is dt.datetime:
        return value
    try:
        if type(value) is str:
            seconds, nanoseconds = parse_go_rfc3339(value)
            moment = _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
            return moment if value.endswith("Z") else _in_its_zone(moment, value[-6:])
        if type(value) is int:
            return _EPOCH + dt.timedelta(seconds=value)
    except (ValueError, OverflowError) as err:
        raise EvaluationError(str(err)) from err
    raise no_such_overload()


def _in_its_zone(moment: dt.datetime, offset: str) -> dt.datetime:
    """The same moment, which prints as it was written."""
    distance = dt.timedelta(hours=int(offset[1:3]), minutes=int(offset[4:]))
    try:
        return moment.astimezone(dt.timezone(-distance if offset[0] == "-" else distance))
    except (OverflowError, ValueError):
        return moment


@function("duration", "dyn")
def _duration(value: Any, *, run: Run) -> dt.timedelta:
    run.spend(1)
    run.work(size(value))
    return to_duration(value)


def to_duration(value: Any) -> dt.timedelta:
    """A length of time from Go's text for it."""
    if type(value) is dt.timedelta:
        return value
    if type(value) is not str:
        raise no_such_overload()
    try:
        return parse_duration(value)
    except ValueError as err:
        raise EvaluationError(str(err)) from err
