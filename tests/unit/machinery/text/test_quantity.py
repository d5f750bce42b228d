from __future__ import annotations

import pytest

from kubevouch.machinery.text import quantity
from kubevouch.machinery.text.quantity import MAX_TEXT, canonical, rounded_up_to_milli


@pytest.mark.parametrize(
    "text",
    [
        "0", "1", "-1", "+1", "1.500", "100m", "1Ki", "2Gi", "5k", "1e3", "1E-3", "3u", "1Gi", "1536Mi", "65795340Ki",
        "129e6", "7Ei", "1.Ki", "110",
    ],
)  # fmt: skip
def test_what_stays_as_it_is(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1024Mi", "1Gi"), ("16384Ki", "16Mi"), ("1.5Gi", "1536Mi"), ("0.1Mi", "104857600m"), ("0.5Ki", "512"),
        ("-1024Ki", "-1Mi"), ("9Ei", "9223372036854775807"), ("0Ki", "0"),
        ("0.5", "500m"), (".5", "500m"), ("-.5", "-500m"), ("1.50", "1500m"), ("1.0", "1"), ("-0", "0"), ("+", "0"),
        ("1000m", "1"), ("1000", "1k"), ("12000000", "12M"), ("1000e3", "1e6"), ("1e2", "100"), ("1e-1", "100e-3"),
        ("0.1n", "1n"), ("-1e-12", "-1e-9"), ("1234567890123456789000", "1234567890123456789k"),
    ],
)  # fmt: skip
def test_what_is_written_in_another_way(text: str, written: str) -> None:
    assert canonical(text) == written
    assert canonical(written) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("100u", "1m"),
        ("1.0001", "1001m"),
        ("-1.0001", "-1001m"),
        ("1500m", "1500m"),
        ("1Gi", "1Gi"),
        ("0.1Mi", "104857600m"),
    ],
)
def test_thousandths(text: str, written: str) -> None:
    assert rounded_up_to_milli(text) == written


REGULAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", REGULAR), ("x", REGULAR), ("1 Ki", REGULAR), ("1\n", REGULAR), ("٣", REGULAR),
        ("1ki", "unable to parse quantity's suffix"), ("1mm", "unable to parse quantity's suffix"),
        ("--1", "unable to parse quantity's suffix"),
        ("1" * (MAX_TEXT + 1), "unable to parse numeric part of quantity"),
        ("1e99999999999", "unable to parse quantity's suffix"), ("1e-5000", "unable to parse quantity's suffix"),
        ("1K", "unable to parse quantity's suffix"), ("1m5", "unable to parse quantity's suffix"),
    ],
)  # fmt: skip
def test_what_is_no_quantity(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        canonical(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "floor", "whole"),
    [
        ("9e2147483647", (1 << 63) - 1, True), ("-9e2147483647", 1 - (1 << 63), True), ("0e2147483647", 0, True),
        ("9e3000000", (1 << 63) - 1, True), ("1e18", 10**18, True), ("1e19", (1 << 63) - 1, True),
        ("9E", 9 * 10**18, True),
        ("1500m", 1, False), ("-1500m", -2, False), ("2000m", 2, True), ("1e-9", 0, False), ("1Ki", 1024, True),
    ],
)  # fmt: skip
def test_whole_numbers_of_any_quantity(text: str, floor: int, whole: bool) -> None:
    assert (quantity.floor(text), quantity.is_whole(text)) == (floor, whole)
