"""``format`` of strings.

Source: cel-go ext/formatting.go (0.26), golang.org/x/text/internal/number for the numbers of en_US.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubevouch.cel.functions import method
from kubevouch.cel.standard import to_string
from kubevouch.cel.values import EvaluationError, Run, TypeValue, UInt, size, type_name
from kubevouch.machinery.text.gotext import quote

_PRECISION = 6
_DIGITS = re.compile(r"[0-9]*", re.ASCII)
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_WRONG = {
    "b": "only integers and bools can be formatted as binary",
    "d": "decimal clause can only be used on integers",
    "e": "scientific clause can only be used on doubles",
    "f": "fixed-point clause can only be used on doubles",
    "o": "octal clause can only be used on integers",
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
}  # fmt: skip
# The kinds of types that each clause takes.
FORMATTED = {
    "b": ("bool", "int", "uint"),
    "d": ("int", "uint"),
    "e": ("double", "string"),
    "f": ("double", "string"),
    "o": ("int", "uint"),
    "s": (
        "bool", "bytes", "double", "duration", "int", "list", "map", "null", "string", "timestamp", "type", "uint",
    ),
    "x": ("bytes", "int", "string", "uint"),
}  # fmt: skip


class Clause(msgspec.Struct, frozen=True):
    """One ``%…`` of a template.

    Args:
        letter: the kind of the clause, in lower case.
        index: of its argument.
    """

    letter: str
    index: int
    precision: int = _PRECISION
    is_upper: bool = False


def wrong(letter: str, name: str) -> str:
    """What is said of an argument of another type."""
    return f"error during formatting: {_WRONG[letter]}, was given {name}"


def clauses(template: str, arguments: int) -> Iterator[str | Clause]:
    """The parts of a template for so many arguments.

    Raises:
        EvaluationError: it has no such parts, or too many; only once the iteration comes there.
    """
    at = index = 0
    while (percent := template.find("%", at)) >= 0:
        yield template[at:percent]
        if template[percent + 1 : percent + 2] == "%":
            yield "%"
            at = percent + 2
            continue
        if percent + 1 == len(template) and index < arguments:
            raise EvaluationError("unexpected end of string")
        if index >= arguments:
            raise EvaluationError(f"index {index} out of range")
        clause, at = _clause(template, percent + 1, index)
        yield clause
        index += 1
    yield template[at:]


def _clause(template: str, start: int, index: int) -> tuple[Clause, int]:
    unreadable, at, precision = "could not parse formatting clause", start, _PRECISION
    if template[at] == ".":
        found = _DIGITS.match(template, at + 1)
        digits = found.group() if found else ""
        at += 1 + len(digits)
        unprecise = f"{unreadable}: error while parsing precision"
        if at == len(template):
            raise EvaluationError(f"{unprecise}: could not find end of precision specifier")
        if not digits or int(digits[:20]) >= 1 << 63:
            why = f"strconv.Atoi: parsing {quote(digits)}: {'value out of range' if digits else 'invalid syntax'}"
            raise EvaluationError(f"{unprecise}: error while converting precision to integer: {why}")
        precision = int(digits[:20])
    letter = template[at]
    if letter not in "sdfebxXo":
        # Go takes the first octet for a character.
        raise EvaluationError(f'{unreadable}: unrecognized formatting clause "{chr(letter.encode()[0])}"')
    return Clause(letter.lower(), index, precision, letter == "X"), at + 1


@method("format", "string list(dyn)")
def _format(template: str, items: list[Any], *, run: Run) -> str:
    run.spend_on_text(template, template)
    parts = clauses(template, len(items))
    return "".join(each if isinstance(each, str) else _formatted(each, items[each.index], run) for each in parts)


def _formatted(clause: Clause, value: Any, run: Run) -> str:
    if clause.letter == "s":
        return _text(value, run)
    run.spend_on_text(value, value)
    try:
        return _FORMATS[clause.letter](value, clause, run)
    except TypeError as err:
        raise EvaluationError(wrong(clause.letter, type_name(value))) from err


def _decimal(value: Any, _clause: Clause, _run: Run) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise TypeError


def _binary(value: Any, _clause: Clause, _run: Run) -> str:
    if type(value) in (int, UInt, bool):
        return f"{int(value):b}"
    raise TypeError


def _octal(value: Any, _clause: Clause, _run: Run) -> str:
    if type(value) in (int, UInt):
        return f"{int(value):o}"
    raise TypeError


def _hexadecimal(value: Any, clause: Clause, _run: Run) -> str:
    if type(value) in (int, UInt):
        text = f"{int(value):x}"
    elif type(value) in (str, bytes):
        text = (value.encode() if type(value) is str else value).hex()
    else:
        raise TypeError
    return text.upper() if clause.is_upper else text


def _fixed(value: Any, clause: Clause, run: Run) -> str:
    number = _number(value, clause, run)
    return _not_finite(number) or f"{number:,.{clause.precision}f}"


def _scientific(value: Any, clause: Clause, run: Run) -> str:
    number = _number(value, clause, run)
    if not math.isfinite(number):
        return _not_finite(number)
    digits, _, exponent = f"{number:.{clause.precision}e}".partition("e")
    return f"{digits}\u202f×\u202f10{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"


def _number(value: Any, clause: Clause, run: Run) -> float:
    # A clause may ask for any number of digits.
    run.spend(clause.precision)
    if type(value) is float:
        return value
    if type(value) is str and value in _NOT_FINITE:
        return float(value)
    raise TypeError


def _not_finite(number: float) -> str:
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return "NaN" if math.isnan(number) else ""


_FORMATS: dict[str, Callable[[Any, Clause, Run], str]] = {
    "b": _binary, "d": _decimal, "e": _scientific, "f": _fixed, "o": _octal, "x": _hexadecimal,
}  # fmt: skip


def _text(value: Any, run: Run) -> str:
    run.spend(1 + size(value))
    kind = type(value)
    if kind is list:
        return f"[{', '.join(_literal(each, run) for each in value)}]"
    if kind is dict:
        pairs = sorted((_literal(key, run), _literal(each, run)) for key, each in value.items())
        return f"{{{', '.join(f'{key}:{text}' for key, text in pairs)}}}"
    if value is None:
        return "null"
    if kind in (bool, int, UInt, float, str, bytes, dt.datetime, dt.timedelta):
        return to_string(value, run=run)
    if kind is TypeValue:
        return str(value.name)
    raise EvaluationError(wrong("s", type_name(value)))


def _literal(value: Any, run: Run) -> str:
    """As an expression would have it."""
    kind = type(value)
    if kind is float:
        return f"{value:.6f}" if math.isfinite(value) else quote(to_string(value, run=run))
    text = _text(value, run)
    if kind is str:
        return quote(text)
    if kind is bytes:
        return f"b{quote(text)}"
    if kind is dt.datetime:
        return f"timestamp({quote(text)})"
    return f"duration({quote(text)})" if kind is dt.timedelta else text
