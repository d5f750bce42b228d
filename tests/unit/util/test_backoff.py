"""util/backoff.py: delays as pure sequences."""

from __future__ import annotations

import datetime as dt
from itertools import islice

import pytest

from kubevouch.util import backoff

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def test_exponential_grows_to_the_cap_and_stays() -> None:
    assert list(islice(backoff.exponential(0.2, 1000.0), 16)) == pytest.approx(
        [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2, 1000, 1000, 1000]
    )


def test_full_jitter_spans_nothing_to_the_whole_delay() -> None:
    values = iter([0.0, 0.5, 0.999])
    assert list(islice(backoff.full_jitter(backoff.exponential(8, 8), lambda: next(values)), 3)) == [0, 4, 7.992]


def test_added_jitter_never_shortens() -> None:
    assert list(islice(backoff.added_jitter(backoff.exponential(1, 30), lambda: 0.5), 3)) == [1.5, 3.0, 6.0]


def test_calming_backoff_starts_over_after_calm() -> None:
    delays = backoff.CalmingBackoff(lambda: backoff.exponential(0.8, 30), calm=120)
    assert [delays.next(0), delays.next(1), delays.next(3)] == [0.8, 1.6, 3.2]
    assert delays.next(123) == 6.4, "exactly the calm period is not yet calm"
    assert delays.next(243.1) == 0.8


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 0 ", 0.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("99999999999999", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert backoff.retry_after(value, NOW) == seconds
