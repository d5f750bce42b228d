from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import asn1_time, der


def moment(*fields: int) -> dt.datetime:
    return dt.datetime(*fields, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"491231235959Z", moment(2049, 12, 31, 23, 59, 59)),
        (b"500101000000Z", moment(1950, 1, 1)),
        (b"4912312359Z", moment(2049, 12, 31, 23, 59)),
        (b"310301120000+0200", moment(2031, 3, 1, 10)),
        (b"310301120000-2400", moment(2031, 3, 2, 12)),
    ],
)
def test_utc_time(text: bytes, expected: dt.datetime) -> None:
    assert asn1_time.parse(der.UTC_TIME, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"", b"310301120000", b"310301120000z", b"310301120000+0000", b"310301120000-0000", b"310301120000+0060",
        b"310301120000+2500", b"310230120000Z", b"310301240000Z", b"310301120060Z", b"310301120000.5Z",
        b"3103011200 0Z", b"\xd9\xa1310301120000Z",
    ],
)  # fmt: skip
def test_no_utc_time(text: bytes) -> None:
    with pytest.raises(DERError, match="not a valid time"):
        asn1_time.parse(der.UTC_TIME, text)


def test_generalized_time() -> None:
    assert asn1_time.parse(der.GENERALIZED_TIME, b"99991231235959Z") == moment(9999, 12, 31, 23, 59, 59)
    assert asn1_time.parse(der.GENERALIZED_TIME, b"20310301120000.25Z", fraction=True) == moment(
        2031, 3, 1, 12, 0, 0, 250000
    )


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        (b"20310301120000.25Z", False),
        (b"20310301120000.250Z", True),
        (b"203103011200Z", False),
        (b"00000101000000Z", False),
        (b"99991231235959-0100", False),
    ],
)
def test_no_generalized_time(text: bytes, fraction: bool) -> None:
    with pytest.raises(DERError, match="not a valid time"):
        asn1_time.parse(der.GENERALIZED_TIME, text, fraction=fraction)


@pytest.mark.parametrize(
    ("when", "octets"),
    [
        (moment(2049, 12, 31, 23, 59, 59, 999999), b"\x17\x0d491231235959Z"),
        (moment(2050, 1, 1), b"\x18\x0f20500101000000Z"),
        (moment(1949, 12, 31), b"\x18\x0f19491231000000Z"),
        (dt.datetime(2031, 3, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))), b"\x17\x0d310301120000Z"),
    ],
)
def test_encode(when: dt.datetime, octets: bytes) -> None:
    assert asn1_time.encode(when) == octets
