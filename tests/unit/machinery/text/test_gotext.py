"""machinery/text/gotext.py: how Go prints."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from kubevouch.machinery.text import gotext

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("plain text.", '"plain text."'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("grün ☃ 日本", '"grün ☃ 日本"'),
        ("\u00a0\u00ad\u2028\ufeff", r'"\u00a0\u00ad\u2028\ufeff"'),
        ("\U0001f600", '"\U0001f600"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\ue000", r'"\ue000"'),
        ("\ufffd", '"\ufffd"'),
        (b"a\xff".decode("utf-8", "surrogateescape"), r'"a\xff"'),
        ("it's", '"it\'s"'),
        ("line\n", r'"line\n"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert gotext.quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "text", "syntax", "kind"),
    [
        (None, "<nil>", "<nil>", "%!s(<nil>)"),
        (True, "true", "true", "bool"),
        (False, "false", "false", "bool"),
        (7, "7", "7", "int64"),
        ("a b", "a b", '"a b"', "string"),
        (1.5, "1.5", "1.5", "float64"),
        ([], "[]", "[]interface {}{}", "[]interface {}"),
        (["x", None], "[x <nil>]", '[]interface {}{"x", interface {}(nil)}', "[]interface {}"),
        (
            {"b": [1, "x"], "a": None},
            "map[a:<nil> b:[1 x]]",
            'map[string]interface {}{"a":interface {}(nil), "b":[]interface {}{1, "x"}}',
            "map[string]interface {}",
        ),
    ],
)
def test_values(value: object, text: str, syntax: str, kind: str) -> None:
    assert gotext.go_value(value) == text
    assert gotext.go_syntax(value) == syntax
    assert gotext.go_type(value) == kind


@pytest.mark.parametrize(
    ("value", "go", "json"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (1.0, "1", "1"),
        (0.1, "0.1", "0.1"),
        (123456789.25, "123456789.25", "123456789.25"),
        (-2.5, "-2.5", "-2.5"),
        (1e20, "100000000000000000000", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (1.25e22, "1.25e+22", "1.25e+22"),
        (1e-4, "0.0001", "0.0001"),
        (1e-5, "1e-05", "0.00001"),
        (1e-6, "1e-06", "0.000001"),
        (1.5e-7, "1.5e-07", "1.5e-7"),
        (1e100, "1e+100", "1e+100"),
        (math.inf, "+Inf", "+Inf"),
        (-math.inf, "-Inf", "-Inf"),
        (math.nan, "NaN", "NaN"),
    ],
)
def test_floats(value: float, go: str, json: str) -> None:
    assert gotext.go_float(value) == go
    assert gotext.json_float(value) == json


def test_lists_of_strings() -> None:
    assert gotext.quoted_list(["a", 'b"']) == r'"a", "b\""'
    assert gotext.string_slice(["a", "b"]) == "[a b]"
    assert gotext.string_slice_syntax(["a", "b"]) == '[]string{"a", "b"}'
    assert gotext.json_value(["<", 1]) == r'["\u003c",1]'


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-10, "<invalid>"), (-2, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (-0.5, "0s"), (0, "0s"), (0.9, "0s"),
        (119, "119s"), (119.9, "119s"), (120, "2m"), (121, "2m1s"), (599, "9m59s"), (600, "10m"), (659, "10m"),
        (3600, "60m"), (7200, "120m"), (10799, "179m"), (10800, "3h"), (10860, "3h1m"), (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"), (DAY, "24h"), (48 * HOUR - 1, "47h"), (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"), (8 * DAY, "8d"), (YEAR, "365d"), (2 * YEAR - 1, "729d"), (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"), (8 * YEAR - 1, "7y364d"), (8 * YEAR, "8y"), (100 * YEAR, "100y"),
        (2026 * YEAR, "292y"),
    ],
)  # fmt: skip
def test_human_duration(seconds: float, text: str) -> None:
    assert gotext.human_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1.5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (HOUR, "1h"),
        (DAY - 1, "23h"), (DAY, "1d"), (YEAR - 1, "364d"), (YEAR, "1y"), (2026 * YEAR, "292y"),
    ],
)  # fmt: skip
def test_short_human_duration(seconds: float, text: str) -> None:
    assert gotext.short_human_duration(seconds) == text


def test_go_time() -> None:
    moment = dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert gotext.go_time(moment) == "2020-01-01 00:00:00 +0000 UTC"
    assert gotext.go_time(moment.replace(microsecond=120000)) == "2020-01-01 00:00:00.12 +0000 UTC"
    assert gotext.go_time(dt.datetime(20, 1, 2, 3, 4, 5, 600, tzinfo=dt.UTC)) == "0020-01-02 03:04:05.0006 +0000 UTC"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", dt.timedelta()),
        ("-0", dt.timedelta()),
        ("24h", dt.timedelta(hours=24)),
        ("24h0m0s", dt.timedelta(hours=24)),
        ("1.5h", dt.timedelta(minutes=90)),
        (".5s", dt.timedelta(seconds=0.5)),
        ("1.s", dt.timedelta(seconds=1)),
        ("+1m", dt.timedelta(minutes=1)),
        ("-1m30s", dt.timedelta(seconds=-90)),
        ("250ms", dt.timedelta(milliseconds=250)),
        ("3us", dt.timedelta(microseconds=3)),
        ("3µs", dt.timedelta(microseconds=3)),
        ("3μs", dt.timedelta(microseconds=3)),
        ("1500ns", dt.timedelta(microseconds=1)),
        ("0" * 5000 + "1s", dt.timedelta(seconds=1)),
        ("1." + "0" * 5000 + "1s", dt.timedelta(seconds=1)),
        ("-9223372036.854775808s", dt.timedelta(microseconds=-9223372036854775)),
        ("2562047h", dt.timedelta(hours=2562047)),
    ],
)
def test_parse_duration(text: str, expected: dt.timedelta) -> None:
    assert gotext.parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1h5", 'time: missing unit in duration "1h5"'),
        ("x", 'time: invalid duration "x"'),
        (".", 'time: invalid duration "."'),
        (".s", 'time: invalid duration ".s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1h 5m", 'time: unknown unit "h " in duration "1h 5m"'),
        ("1..5h", 'time: missing unit in duration "1..5h"'),
        ("1 h", 'time: unknown unit " h" in duration "1 h"'),
        ("1hx", 'time: unknown unit "hx" in duration "1hx"'),
        ("9" * 5000 + "h", f'time: invalid duration "{"9" * 5000}h"'),
        ("9223372036.854775808s", 'time: invalid duration "9223372036.854775808s"'),
        ("1H", 'time: unknown unit "H" in duration "1H"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("1٣s", r'time: unknown unit "\xd9\xa3s" in duration "1\xd9\xa3s"'),
    ],
)
def test_texts_that_are_no_duration(text: str, complaint: str) -> None:
    with pytest.raises(ValueError) as caught:
        gotext.parse_duration(text)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (dt.timedelta(), "0s"),
        (dt.timedelta(hours=24), "24h0m0s"),
        (dt.timedelta(seconds=1.5), "1.5s"),
        (dt.timedelta(minutes=10), "10m0s"),
        (dt.timedelta(seconds=61.25), "1m1.25s"),
        (dt.timedelta(milliseconds=250), "250ms"),
        (dt.timedelta(microseconds=1500), "1.5ms"),
        (dt.timedelta(microseconds=7), "7µs"),
        (dt.timedelta(seconds=-90), "-1m30s"),
        (dt.timedelta(days=365), "8760h0m0s"),
    ],
)
def test_format_duration(value: dt.timedelta, text: str) -> None:
    assert gotext.format_duration(value) == text
