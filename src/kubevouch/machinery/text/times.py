"""Kubernetes' two wire times: ``Time`` (whole seconds) and ``MicroTime`` (six decimals).

Source: k8s.io/apimachinery/pkg/apis/meta/v1 ``Time``, ``MicroTime`` (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
import re
from functools import total_ordering

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - prints without an offset
# Go's zero time.Time; Kubernetes writes it as null.
ZERO_SECONDS = -62135596800
_YEAR_10000 = 253402300800

_GO_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:(Z)|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


RFC3339_LAYOUT, MICRO_LAYOUT = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
_SIX_DECIMALS = re.compile(rb"[.,]\d{6}")


def parse_go_rfc3339(text: str, layout: str = RFC3339_LAYOUT) -> tuple[int, int]:
    """Unix seconds and nanoseconds of ``text`` by the grammar of Go's ``time.Parse(time.RFC3339, …)``.

    With ``MICRO_LAYOUT`` there must be six decimals; otherwise there may be any number.

    Go accepts a comma before the fraction, a one-digit hour and offsets of up to 24 hours and 60 minutes, and refuses
    lower-case letters, second 60 and any blank (observed with Go 1.26).

    Raises:
        ValueError: the text is not such a time, or a part of it is out of range; ``str()`` is Go's sentence.
    """
    match = _GO_RFC3339.fullmatch(text)
    if match is None or (layout is MICRO_LAYOUT and len(match[7] or "") != 6):
        raise ValueError(_complaint(text, layout))
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not 1 <= month <= 12 or hour > 23 or minute > 59 or second > 59:
        raise ValueError(_complaint(text, layout))
    offset = 0
    if match[8] is None:
        hours, minutes = int(match[10]), int(match[11])
        if hours > 24 or minutes > 60:
            raise ValueError(_complaint(text, layout))
        offset = (hours * 3600 + minutes * 60) * (1 if match[9] == "+" else -1)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= (29 if month == 2 and leap else _DAYS[month - 1]):
        raise ValueError(_complaint(text, layout))
    nanos = int((match[7] or "0")[:9].ljust(9, "0"))
    return _seconds_of(year, month, day) + hour * 3600 + minute * 60 + second - offset, nanos


def _seconds_of(year: int, month: int, day: int) -> int:
    """Unix seconds of midnight; the year may be 0, which ``datetime`` cannot hold."""
    if year >= 1:
        return (dt.date(year, month, day).toordinal() - 719163) * 86400
    return (dt.date(4, month, day).toordinal() - 1461 - 719163) * 86400  # year 0 is a leap year, as year 4 is


# The layout as Go reads it: digits at least and at most, their layout element, the largest value and its name; or a
# literal.
_LAYOUT: tuple[tuple[int, int, str, int, str] | str, ...] = (
    (4, 4, "2006", 9999, ""), "-", (2, 2, "01", 12, "month"), "-", (2, 2, "02", 99, ""), "T",
    (1, 2, "15", 23, "hour"), ":", (2, 2, "04", 59, "minute"), ":", (2, 2, "05", 59, "second"),
)  # fmt: skip


def _complaint(text: str, layout: str) -> str:
    """Go's sentence about a text that is no time: the first fault from the left, the day of the month last."""
    rest = text.encode("utf-8", "surrogatepass")
    start = f"parsing time {quoted(rest)}"
    for part in _LAYOUT:
        if isinstance(part, str):
            if not rest.startswith(part.encode()):
                return _cannot_parse(start, rest, part, layout)
            rest = rest[1:]
            continue
        least, most, element, largest, name = part
        digits = re.match(rb"\d{%d,%d}" % (least, most), rest)
        if digits is None:
            return _cannot_parse(start, rest, element, layout)
        rest = rest[digits.end() :]
        if int(digits.group()) > largest or (name == "month" and not int(digits.group())):
            return f"{start}: {name} out of range"
    fraction = _SIX_DECIMALS.match(rest) if layout is MICRO_LAYOUT else re.match(rb"[.,]\d+", rest)
    if fraction is None and layout is MICRO_LAYOUT:
        return _cannot_parse(start, rest, ".000000", layout)
    return _zone_complaint(start, rest[fraction.end() :] if fraction else rest, layout)


def _zone_complaint(start: str, rest: bytes, layout: str) -> str:
    if rest.startswith(b"Z"):
        rest = rest[1:]
    else:
        hours, minutes = rest[1:3], rest[4:6]
        if len(minutes) < 2 or rest[3:4] != b":":
            return _cannot_parse(start, rest, "Z07:00", layout)
        if hours.isdigit() and minutes.isdigit() and int(minutes) > 60:
            return f"{start}: time zone offset minute out of range"
        if hours.isdigit() and int(hours) > 24:
            return f"{start}: time zone offset hour out of range"
        if rest[:1] not in (b"+", b"-") or not hours.isdigit() or not minutes.isdigit():
            return _cannot_parse(start, rest, "Z07:00", layout)
        rest = rest[6:]
    return f"{start}: extra text: {quoted(rest)}" if rest else f"{start}: day out of range"


def _cannot_parse(start: str, rest: bytes, element: str, layout: str) -> str:
    return f'{start} as "{layout}": cannot parse {quoted(rest)} as "{element}"'


def quoted(text: bytes) -> str:
    """As Go's package time quotes: octets that are not ASCII, and control characters, in hexadecimal."""
    return f'"{"".join(map(_quoted_octet, text))}"'


def _quoted_octet(octet: int) -> str:
    if octet in b'"\\':
        return f"\\{chr(octet)}"
    return chr(octet) if 32 <= octet < 128 else f"\\x{octet:02x}"


_FOUR_CENTURIES = 12622780800  # seconds; the Gregorian calendar repeats after them


def _text(seconds: int) -> str:
    """``seconds`` as RFC 3339 in UTC without the final Z; years beyond 0000 to 9999 get a sign or more digits."""
    if ZERO_SECONDS <= seconds < _YEAR_10000:
        return (_NAIVE_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    cycles, rest = divmod(seconds - ZERO_SECONDS, _FOUR_CENTURIES)
    shifted = _text(rest + ZERO_SECONDS)
    year = int(shifted[:4]) + 400 * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04d}{shifted[4:]}"


@total_ordering
class Time:
    """A point in time with a precision of one second.

    ``seconds`` counts from 1970-01-01 UTC and may be negative.
    """

    __slots__ = ("seconds",)

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    @classmethod
    def of(cls, moment: dt.datetime) -> Time:
        """The time of an aware ``datetime``, rounded down to the second."""
        return cls((moment - _EPOCH) // dt.timedelta(seconds=1))

    @classmethod
    def parse(cls, text: str) -> Time:
        """Raises ``ValueError`` as :func:`parse_go_rfc3339` does."""
        return cls(parse_go_rfc3339(text)[0])

    @property
    def is_zero(self) -> bool:
        return self.seconds == ZERO_SECONDS

    def datetime(self) -> dt.datetime:
        """Raises ``OverflowError`` for the year 0, which Go's parser accepts and ``datetime`` cannot hold."""
        return _EPOCH + dt.timedelta(seconds=self.seconds)

    def __str__(self) -> str:
        return _text(self.seconds) + "Z"

    def __repr__(self) -> str:
        return f"Time({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other.seconds == self.seconds

    def __lt__(self, other: Time) -> bool:
        return self.seconds < other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)


@total_ordering
class MicroTime:
    """A point in time with a precision of one microsecond, always printed with six decimals."""

    __slots__ = ("micros",)

    def __init__(self, micros: int) -> None:
        self.micros = micros

    @classmethod
    def of(cls, moment: dt.datetime) -> MicroTime:
        return cls((moment - _EPOCH) // dt.timedelta(microseconds=1))

    @classmethod
    def parse(cls, text: str) -> MicroTime:
        """Raises ``ValueError`` as :func:`parse_go_rfc3339` does."""
        seconds, nanos = parse_go_rfc3339(text, MICRO_LAYOUT)
        return cls(seconds * 1_000_000 + nanos // 1000)

    @property
    def is_zero(self) -> bool:
        return self.micros == ZERO_SECONDS * 1_000_000

    def datetime(self) -> dt.datetime:
        return _EPOCH + dt.timedelta(microseconds=self.micros)

    def __str__(self) -> str:
        seconds, micros = divmod(self.micros, 1_000_000)
        return f"{_text(seconds)}.{micros:06d}Z"

    def __repr__(self) -> str:
        return f"MicroTime({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MicroTime) and other.micros == self.micros

    def __lt__(self, other: MicroTime) -> bool:
        return self.micros < other.micros

    def __hash__(self) -> int:
        return hash(self.micros)
