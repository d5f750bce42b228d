"""records/ca_rotation.py: the order to renew, and each machine's moment."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.records.ca_rotation import RenewalOrder, RenewalOrderError, due_at, encode, parse

BEGINS = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
ORDER = RenewalOrder(authority="sha256:00", begins=BEGINS, window_seconds=3600)


def test_it_is_read_back() -> None:
    assert encode(ORDER) == '{"authority":"sha256:00","begins":"2031-03-01T12:00:00Z","windowSeconds":3600}'
    assert parse(encode(ORDER)) == ORDER


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"authority":"x"}', encode(ORDER).replace("3600", "-1"), encode(ORDER).replace("3600", "1e12"),
        encode(ORDER).replace("00Z", "00"), encode(ORDER) + " " * 1024,
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(RenewalOrderError):
        parse(text)


def test_each_machine_has_its_own_moment_and_keeps_it() -> None:
    moments = [due_at(ORDER, f"node-{n}") for n in range(1000)]
    assert moments == [due_at(ORDER, f"node-{n}") for n in range(1000)]
    assert min(moments) >= BEGINS and max(moments) < BEGINS + dt.timedelta(hours=1)
    counts = [sum((moment - BEGINS) // dt.timedelta(minutes=6) == tenth for moment in moments) for tenth in range(10)]
    assert min(counts) > 60 and sum(counts) == 1000
