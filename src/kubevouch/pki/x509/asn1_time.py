"""UTCTime and GeneralizedTime as Go reads and writes them (Go 1.26, ``encoding/asn1`` and x/crypto ``cryptobyte``).

Go parses leniently and then demands that printing gives the same text back; what is left is the grammar below. Years
that ``datetime`` cannot hold (0, or past 9999 after the offset) are refused here and accepted by Go.
"""

from __future__ import annotations

import datetime as dt
import re

from kubevouch.machinery.text import gotext
from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import der

_UTC_TIME = re.compile(rb"(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(?:Z|([+-])(\d\d)(\d\d))", re.ASCII)
_GENERALIZED_TIME = re.compile(
    rb"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{0,8}[1-9]))?(?:Z|([+-])(\d\d)(\d\d))", re.ASCII
)


def parse(tag: int, contents: bytes, *, fraction: bool = False) -> dt.datetime:
    """The moment in UTC.

    Args:
        tag: ``der.UTC_TIME`` or ``der.GENERALIZED_TIME``.
        fraction: a GeneralizedTime may have a fraction of a second; it is cut to microseconds.

    Raises:
        DERError: not such a time.
    """
    try:
        if tag == der.UTC_TIME:
            return _utc_time(contents)
        return _generalized_time(contents, fraction=fraction)
    except (ValueError, OverflowError) as error:
        text = gotext.quote(contents.decode("utf-8", "surrogateescape"))
        raise DERError(f"asn1: not a valid time: {text}") from error


def _utc_time(contents: bytes) -> dt.datetime:
    match = _UTC_TIME.fullmatch(contents)
    if match is None:
        raise ValueError
    year = int(match[1])
    # RFC 5280 section 4.1.2.5.1: 50 to 99 are 1950 to 1999.
    return _moment(
        year + (1900 if year >= 50 else 2000), match.group(2, 3, 4, 5), match[6] or b"0", match.group(7, 8, 9)
    )


def _generalized_time(contents: bytes, *, fraction: bool) -> dt.datetime:
    match = _GENERALIZED_TIME.fullmatch(contents)
    if match is None or (match[7] and not fraction):
        raise ValueError
    moment = _moment(int(match[1]), match.group(2, 3, 4, 5), match[6], match.group(8, 9, 10))
    return moment.replace(microsecond=int((match[7] or b"0")[:6].ljust(6, b"0")))


def _moment(year: int, fields: tuple[bytes, ...], second: bytes, offset: tuple[bytes | None, ...]) -> dt.datetime:
    month, day, hour, minute = fields
    moment = dt.datetime(year, int(month), int(day), int(hour), int(minute), int(second), tzinfo=dt.UTC)
    sign, hours, minutes = offset
    if hours is None or minutes is None:
        return moment
    away = int(hours) * 60 + int(minutes)
    # An offset of zero is printed as Z, one of 60 minutes as an hour: neither comes back as it was.
    if away == 0 or int(hours) > 24 or int(minutes) > 59:
        raise ValueError
    return moment - dt.timedelta(minutes=away if sign == b"+" else -away)


def encode(moment: dt.datetime) -> bytes:
    """UTCTime for 1950 to 2049, else GeneralizedTime (RFC 5280 section 4.1.2.5); whole seconds, rounded down."""
    utc = moment.astimezone(dt.UTC)
    tail = f"{utc.month:02d}{utc.day:02d}{utc.hour:02d}{utc.minute:02d}{utc.second:02d}Z"
    if 1950 <= utc.year < 2050:
        return der.encode(der.UTC_TIME, f"{utc.year % 100:02d}{tail}".encode())
    return der.encode(der.GENERALIZED_TIME, f"{utc.year:04d}{tail}".encode())
