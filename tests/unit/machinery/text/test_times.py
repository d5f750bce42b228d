"""machinery/text/times.py: Go's grammar of RFC 3339, and how times print."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.machinery.text.times import ZERO_SECONDS, MicroTime, Time, parse_go_rfc3339


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("2026-11-21T12:00:00Z", 1795262400, 0),
        ("2026-11-21T12:00:00.5Z", 1795262400, 500_000_000),
        ("2026-11-21T12:00:00,25Z", 1795262400, 250_000_000),
        ("2026-11-21T12:00:00.1234567891Z", 1795262400, 123_456_789),
        ("2026-11-21T1:00:00Z", 1795222800, 0),
        ("2026-11-21T13:00:00+01:00", 1795262400, 0),
        ("2026-11-21T11:30:00-00:30", 1795262400, 0),
        ("2026-11-22T12:00:00+24:00", 1795262400, 0),
        ("2026-11-21T13:00:00+00:60", 1795262400, 0),
        ("2024-02-29T00:00:00Z", 1709164800, 0),
        ("2000-02-29T00:00:00Z", 951782400, 0),
        ("0001-01-01T00:00:00Z", ZERO_SECONDS, 0),
        ("0000-02-29T00:00:00Z", ZERO_SECONDS - 366 * 86400 + 59 * 86400, 0),
    ],
)
def test_what_go_takes_for_a_time(text: str, seconds: int, nanos: int) -> None:
    assert parse_go_rfc3339(text) == (seconds, nanos)


@pytest.mark.parametrize(
    ("text", "rest", "element"),
    [
        ("", "", "2006"),
        ("never", "never", "2006"),
        ("0", "0", "2006"),
        ("1795262400", "262400", "-"),
        ("12026-11-21T12:00:00Z", "6-11-21T12:00:00Z", "-"),
        ("2026-1-21", "1-21", "01"),
        ("2026-11-21", "", "T"),
        ("2026-11-21t12:00:00Z", "t12:00:00Z", "T"),
        ("2026-11-21 12:00:00Z", " 12:00:00Z", "T"),
        ("2026-11-21T:00", ":00", "15"),
        ("2026-11-21T12:00Z", "Z", ":"),
        ("2026-11-21T12:00:00", "", "Z07:00"),
        ("2026-11-21T12:00:00z", "z", "Z07:00"),
        ("2026-11-21T12:00:00+0100", "+0100", "Z07:00"),
        ("2026-11-21T12:00:00+01:0x", "+01:0x", "Z07:00"),
        ("2026-11-21T12:00:00*01:00", "*01:00", "Z07:00"),
        ("2026-11-21T12:00:00.Z", ".Z", "Z07:00"),
        (" 2026-11-21T12:00:00Z", " 2026-11-21T12:00:00Z", "2006"),
    ],
)
def test_where_go_stops_reading(text: str, rest: str, element: str) -> None:
    layout = "2006-01-02T15:04:05Z07:00"
    with pytest.raises(ValueError) as caught:
        parse_go_rfc3339(text)
    assert str(caught.value) == f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"'


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-13-99", "month"),
        ("2026-00-01T12:00:00Z", "month"),
        ("2026-02-30T12:00:00Z", "day"),
        ("2026-11-00T12:00:00Z", "day"),
        ("2026-02-29T12:00:00Z", "day"),
        ("2100-02-29T12:00:00Z", "day"),
        ("2026-02-30T12:00:00+01:00", "day"),
        ("2026-11-21T24:00:00Z", "hour"),
        ("2026-11-21T12:60:00Z", "minute"),
        ("2026-11-21T12:00:60Z", "second"),
        ("2026-11-21T12:00:00+25:00", "time zone offset hour"),
        ("2026-11-21T12:00:00+25:61", "time zone offset minute"),
        ("2026-11-21T12:00:00*25:xx", "time zone offset hour"),
    ],
)
def test_parts_out_of_range(text: str, part: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_go_rfc3339(text)
    assert str(caught.value) == f'parsing time "{text}": {part} out of range'


def test_quotes_of_odd_texts() -> None:
    def complaint(text: str) -> str:
        with pytest.raises(ValueError) as caught:
            parse_go_rfc3339(text)
        return str(caught.value)

    assert complaint("2026-11-21T12:00:00Z\n") == r'parsing time "2026-11-21T12:00:00Z\x0a": extra text: "\x0a"'
    assert complaint('"é\\').endswith(r'cannot parse "\"\xc3\xa9\\" as "2006"')
    assert complaint("٢٠٢٦").endswith(r'cannot parse "\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa6" as "2006"'), "no digits to Go"


def test_a_time_drops_fractions_and_prints_in_utc() -> None:
    assert str(Time.parse("2026-11-21T13:00:00.999+01:00")) == "2026-11-21T12:00:00Z"
    assert str(MicroTime.parse("2026-11-21T13:00:00.123456+01:00")) == "2026-11-21T12:00:00.123456Z"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-11-21T12:00:00Z", 'cannot parse "Z" as ".000000"'),
        ("2026-11-21T12:00:00.5Z", 'cannot parse ".5Z" as ".000000"'),
        ("2026-11-21T12:00:00.1234567Z", 'cannot parse "7Z" as "Z07:00"'),
        ("2026-11-21T12:00:00.123456", 'cannot parse "" as "Z07:00"'),
        ("2026-11-21", 'cannot parse "" as "T"'),
    ],
)
def test_a_micro_time_has_six_decimals(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="parsing time") as caught:
        MicroTime.parse(text)
    assert str(caught.value) == f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": {why}'


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "1969-12-31T23:59:59Z"),
        (ZERO_SECONDS, "0001-01-01T00:00:00Z"),
        (ZERO_SECONDS - 1, "0000-12-31T23:59:59Z"),
        (ZERO_SECONDS - 366 * 86400 - 1, "-0001-12-31T23:59:59Z"),
        (253402300799, "9999-12-31T23:59:59Z"),
        (253402300800, "10000-01-01T00:00:00Z"),
        ((1 << 63) - 1, "292277026596-12-04T15:30:07Z"),
    ],
)
def test_times_of_any_year_print(seconds: int, text: str) -> None:
    assert str(Time(seconds)) == text
    assert str(MicroTime(seconds * 1_000_000 + 1)) == f"{text[:-1]}.000001Z"


def test_times_and_datetimes() -> None:
    noon = dt.datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=dt.UTC)
    assert Time.of(noon).datetime() == noon.replace(microsecond=0)
    assert MicroTime.of(noon).datetime() == noon
    before_epoch = dt.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=dt.UTC)
    assert Time.of(before_epoch) == Time(-1)
    assert MicroTime.of(before_epoch) == MicroTime(-500000)


def test_the_zero_time() -> None:
    assert Time.parse("0001-01-01T00:00:00Z").is_zero
    assert not Time(0).is_zero
    assert MicroTime.parse("0001-01-01T00:00:00.000000Z").is_zero
    assert not MicroTime.parse("0001-01-01T00:00:00.000001Z").is_zero


def test_times_compare_and_hash_by_value() -> None:
    assert Time(1) == Time(1) != Time(2)
    assert Time(1) < Time(2) <= Time(2)
    assert hash(Time(1)) == hash(Time(1))
    assert Time(1) != MicroTime(1)
    assert MicroTime(1) < MicroTime(2)
    assert MicroTime(2) == MicroTime(2)
    assert hash(MicroTime(1)) == hash(MicroTime(1))
    assert repr(Time(0)) == "Time('1970-01-01T00:00:00Z')"
    assert repr(MicroTime(0)) == "MicroTime('1970-01-01T00:00:00.000000Z')"
