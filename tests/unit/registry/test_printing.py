from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.machinery.text.times import Time
from kubevouch.registry.printing import age, created_at, or_none

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("before", "shown"),
    [(0, "0s"), (59, "59s"), (119, "119s"), (120, "2m"), (3 * 3600, "3h"), (3 * 86400, "3d"), (-10, "<invalid>")],
)
def test_age(before: int, shown: str) -> None:
    assert age(Time.of(NOW - dt.timedelta(seconds=before)), NOW) == shown


def test_what_is_not_there() -> None:
    assert age(None, NOW) == "<unknown>"
    assert created_at(None) is None
    assert or_none("") == "<none>"
    assert or_none("x") == "x"
