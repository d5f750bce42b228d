"""How Go prints values in the messages that Kubernetes sends: ``%q``, JSON values, ``HumanDuration``.

Sources: Go ``strconv.Quote`` (Go 1.26); k8s.io/apimachinery/pkg/util/duration, pkg/api/resource (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable

from kubevouch.machinery import json_codec

_NAMED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", '"': '\\"', "\\": "\\\\",
}  # fmt: skip
_PLAIN = re.compile(r"[ !#-\[\]-~]*\Z", re.ASCII)


def quote(text: str) -> str:
    """Go's ``%q`` of a string."""
    if _PLAIN.match(text):
        return f'"{text}"'
    return '"' + "".join(_quoted(char) for char in text) + '"'


def _quoted(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char == " " or _is_printable(char):
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_printable(char: str) -> bool:
    """``strconv.IsPrint``: letters, marks, numbers, punctuation and symbols; of the spaces only U+0020."""
    return unicodedata.category(char)[0] in "LMNPS"


def json_value(value: object) -> str:
    """A value that is not a plain string, as field errors print it."""
    return json_codec.encode(value).decode()


def quoted_list(values: Iterable[str]) -> str:
    """``"a", "b"``: supported values, in the order given."""
    return ", ".join(quote(value) for value in values)


def string_slice(values: Iterable[str]) -> str:
    """Go's ``%v`` of a ``[]string``: ``[a b]``."""
    return f"[{' '.join(values)}]"


def string_slice_syntax(values: Iterable[str]) -> str:
    """Go's ``%#v`` of a ``[]string``: ``[]string{"a", "b"}``."""
    return f"[]string{{{quoted_list(values)}}}"


_YEAR = 365 * 24 * 3600


def human_duration(seconds: float) -> str:
    """``duration.HumanDuration``: the ages in kubectl's tables."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if whole < 2 * _YEAR:
        return f"{days}d"
    years = whole // _YEAR
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def short_human_duration(seconds: float) -> str:
    """``duration.ShortHumanDuration``: one unit, rounded down."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    for size, unit in ((_YEAR, "y"), (86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def go_time(moment: dt.datetime) -> str:
    """Go's default format of a UTC time: ``2020-01-01 00:00:00 +0000 UTC``."""
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S") + f"{fraction} +0000 UTC"


_DURATION = re.compile(r"([0-9]*)(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def parse_duration(text: str) -> dt.timedelta:
    """Go's ``time.ParseDuration``, such as ``24h0m0s`` or ``1.5h``.

    Raises:
        ValueError: in Go's words: ``time: invalid duration "x"``, ``time: missing unit in duration "5"``.
    """
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return dt.timedelta()
    if not rest:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total = 0
    while rest:
        match = _DURATION.match(rest)
        if match is None or not (match[1] or (match[2] or "").strip(".")):
            number = re.match(r"[0-9]*\.?[0-9]*", rest, re.ASCII)
            if number is None or not number.group().strip("."):
                raise ValueError(f"time: invalid duration {quote(text)}")
            unit = re.match(r"[^0-9.]*", rest[number.end() :])
            if unit is None or not unit.group():
                raise ValueError(f"time: missing unit in duration {quote(text)}")
            raise ValueError(f"time: unknown unit {quote(unit.group())} in duration {quote(text)}")
        unit_nanos = _UNITS[match[3]]
        total += int(match[1] or 0) * unit_nanos
        if match[2] and match[2] != ".":
            total += int(match[2][1:]) * unit_nanos // 10 ** (len(match[2]) - 1)
        rest = rest[match.end() :]
    if total >= 1 << 63:
        raise ValueError(f"time: invalid duration {quote(text)}")
    return dt.timedelta(microseconds=sign * (total // 1000))


def format_duration(value: dt.timedelta) -> str:
    """Go's ``Duration.String()`` to the microsecond: ``24h0m0s``, ``1.5s``, ``250ms``."""
    micros = value // dt.timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1000)}ms"
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    tail = f"{_decimal(seconds * 1_000_000 + fraction, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{tail}"
    return f"{sign}{minutes}m{tail}" if minutes else f"{sign}{tail}"


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
