"""How Go prints values in the messages that Kubernetes sends: ``%q``, JSON values, ``HumanDuration``.

Sources: Go ``strconv.Quote`` (Go 1.26); k8s.io/apimachinery/pkg/util/duration, pkg/api/resource (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import quoted

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
    if is_printable(char):
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an octet that is not UTF-8, decoded with surrogateescape
        return f"\\x{code & 0xFF:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_printable(char: str) -> bool:
    """``strconv.IsPrint``: letters, marks, numbers, punctuation and symbols; of the spaces only U+0020."""
    return char == " " or unicodedata.category(char)[0] in "LMNPS"


def is_printable_text(text: str) -> bool:
    """Whether each character is."""
    if text.isascii():
        return text.isprintable()
    return all(map(is_printable, text))


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


def go_value(value: object) -> str:
    """Go's ``%v`` of a decoded JSON value: ``map[a:1 b:[x y]]``, ``<nil>``."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_value(value[key])}' for key in sorted(value, key=_bytewise))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_value(item) for item in value)}]"
    return str(value)


def go_syntax(value: object) -> str:
    """Go's ``%#v`` of a decoded JSON value."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        items = ", ".join(f"{quote(key)}:{_nested_syntax(value[key])}" for key in sorted(value, key=_bytewise))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_nested_syntax(item) for item in value)}}}"
    return go_value(value)


def _nested_syntax(value: object) -> str:
    return "interface {}(nil)" if value is None else go_syntax(value)


def go_type(value: object) -> str:
    """The Go type that a decoded JSON value has; ``%!s(<nil>)`` is what ``%s`` prints for none."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), (int, "int64"), (float, "float64"), (list, "[]interface {}")):
        if isinstance(value, kind):
            return name
    return "map[string]interface {}"


def go_float(value: float) -> str:
    """Go's ``%v`` of a float64: the shortest digits, an exponent below 1e-4 and from 1e21."""
    return _float_text(value, smallest=-4, exponent_digits=2)


def json_float(value: float) -> str:
    """A float64 as Go's JSON encoder writes it: an exponent below 1e-6 and from 1e21, without leading zeros."""
    return _float_text(value, smallest=-6, exponent_digits=1)


def _float_text(value: float, *, smallest: int, exponent_digits: int) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    if text == "0":
        bare = "0"
    elif not smallest <= point - 1 < 21:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        bare = f"{text[0]}{fraction}e{'-' if point < 1 else '+'}{abs(point - 1):0{exponent_digits}d}"
    elif point <= 0:
        bare = f"0.{'0' * -point}{text}"
    elif point >= len(text):
        bare = text + "0" * (point - len(text))
    else:
        bare = f"{text[:point]}.{text[point:]}"
    return f"-{bare}" if sign else bare


def _bytewise(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_YEAR = 365 * 24 * 3600
_MAX_DURATION = ((1 << 63) - 1) // 10**9  # seconds; a longer span counts as this one


def human_duration(seconds: float) -> str:
    """``duration.HumanDuration``: the ages in kubectl's tables."""
    whole = int(min(seconds, _MAX_DURATION))
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
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
    whole = int(min(seconds, _MAX_DURATION))
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for size, unit in ((_YEAR, "y"), (86400, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def go_time(moment: dt.datetime) -> str:
    """Go's ``Time.String`` of a moment in UTC: ``2020-01-01 00:00:00 +0000 UTC``."""
    utc = moment.astimezone(dt.UTC).replace(tzinfo=None)
    fraction = f".{utc.microsecond:06d}".rstrip("0") if utc.microsecond else ""
    return f"{utc.isoformat(sep=' ', timespec='seconds')}{fraction} +0000 UTC"


_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_MAX_NANOS = 1 << 63
_WHOLE_DIGITS, _FRACTION_DIGITS = 19, 18  # more do not fit, or do not count


def parse_duration(text: str) -> dt.timedelta:
    """Go's ``time.ParseDuration``, such as ``24h0m0s`` or ``1.5h``.

    Raises:
        ValueError: in Go's words: ``time: invalid duration "x"``, ``time: missing unit in duration "5"``.
    """
    shown = quoted(text.encode("utf-8", "surrogatepass"))
    invalid = ValueError(f"time: invalid duration {shown}")
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return dt.timedelta()
    if not rest:
        raise invalid
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(rest)[:-1]:  # the last one is the empty end
        whole, fraction = whole.lstrip("0") or whole[:1], fraction[:_FRACTION_DIGITS]
        if not (whole or fraction) or len(whole) > _WHOLE_DIGITS:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {shown}")
        nanos = _UNITS.get(unit)
        if nanos is None:
            raise ValueError(f"time: unknown unit {quoted(unit.encode('utf-8', 'surrogatepass'))} in duration {shown}")
        total += int(whole or "0") * nanos + int(fraction or "0") * nanos // 10 ** len(fraction)
        if total > _MAX_NANOS:
            raise invalid
    if total == _MAX_NANOS and not negative:
        raise invalid
    return dt.timedelta(microseconds=total // 1000 * (-1 if negative else 1))


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
