from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.storage.interface import (
    MAX_VALUE_BYTES,
    KeyExists,
    KeyValue,
    Revision,
    RevisionConflict,
    ValueTooLarge,
)
from kubevouch.storage.write import (
    Write,
    check_key,
    check_limit,
    check_text,
    check_value,
    expiry,
    microseconds,
    prefix_end,
    refusal,
)
from kubevouch.testing.clock import FakeClock

HELD = KeyValue("/k", b"v", Revision(5))


@pytest.mark.parametrize(
    ("expected", "current", "refused"),
    [
        (None, None, None),
        (None, HELD, KeyExists),
        (Revision(5), HELD, None),
        (Revision(4), HELD, RevisionConflict),
        (Revision(6), HELD, RevisionConflict),
        (Revision(3), HELD, RevisionConflict),
        (Revision(0), HELD, RevisionConflict),
        (Revision(5), None, RevisionConflict),
        (Revision(0), None, RevisionConflict),
    ],
)
@pytest.mark.parametrize("value", [b"new", None])
def test_state_decides(
    expected: Revision | None, current: KeyValue | None, refused: type[Exception] | None, value: bytes | None
) -> None:
    found = refusal(Write("/k", value, expected), current)
    assert (found is None) if refused is None else isinstance(found, refused)


@pytest.mark.parametrize("key", ["a", "/registry/secrets/ü", "\U0010ffff", " "])
def test_key(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize("key", ["", "a\0b", "\0", "a\ud800"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(ValueError):
        check_key(key)


def test_text_without_bytes() -> None:
    check_text("")
    with pytest.raises(ValueError):
        check_text("\udfff")


def test_value_has_a_bound() -> None:
    check_value("/k", bytes(MAX_VALUE_BYTES))
    with pytest.raises(ValueTooLarge, match=f"/k: got a value of {MAX_VALUE_BYTES + 1} bytes"):
        check_value("/k", bytes(MAX_VALUE_BYTES + 1))


def test_limit() -> None:
    check_limit(0)
    with pytest.raises(ValueError, match="got the limit -1"):
        check_limit(-1)


def test_due_to_the_microsecond() -> None:
    clock = FakeClock(dt.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=dt.UTC))
    assert microseconds(clock) == 1_000_005
    assert expiry(clock, None) is None
    assert expiry(clock, 0.000001) == 1_000_006
    assert expiry(clock, 1.5) == 2_500_005


@pytest.mark.parametrize("ttl", [0, -1, float("inf"), float("nan")])
def test_time_to_live_is_finite_and_ahead(ttl: float) -> None:
    with pytest.raises(ValueError, match="got a time to live of"):
        expiry(FakeClock(), ttl)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("/a/", "/a0"),
        ("a", "b"),
        ("", None),
        ("\U0010ffff", None),
        ("a\U0010ffff", "b"),
        ("\ud7ff", "\ue000"),
        ("\x7f", "\x80"),
    ],
)
def test_first_key_behind_a_prefix(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end
    if end is not None:
        assert prefix.encode() < (prefix + "\U0010ffff").encode() < end.encode()
