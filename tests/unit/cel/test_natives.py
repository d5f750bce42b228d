"""Values that JSON has only as text, by their types."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.cel.natives import conversion
from kubevouch.cel.types import BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, Type, list_of, map_of, optional_of
from kubevouch.cel.values import NONE, EvaluationError, Optional


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (BYTES, "YWI=", b"ab"),
        (TIMESTAMP, "2026-01-02", dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        (TIMESTAMP, "2026-01-02t03:04:05z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (DURATION, "1h30m", dt.timedelta(minutes=90)),
        (DURATION, "2 days", dt.timedelta(days=2)),
        (DURATION, "1 week 1 hr", dt.timedelta(days=7, hours=1)),
        (DOUBLE, 2, 2.0),
        (list_of(DOUBLE), [1, 2], [1.0, 2.0]),
        (map_of(STRING, list_of(BYTES)), {"a": ["YQ=="]}, {"a": [b"a"]}),
        (optional_of(BYTES), Optional("YQ=="), Optional(b"a")),
        (optional_of(BYTES), NONE, NONE),
    ],
)
def test_text_becomes_what_it_means(kind: Type, given: object, value: object) -> None:
    convert = conversion(kind)
    assert convert is not None
    assert convert(given) == value


@pytest.mark.parametrize("kind", [BYTES, TIMESTAMP, DURATION, DOUBLE, list_of(BYTES), map_of(STRING, BYTES)])
def test_null_stays_null(kind: Type) -> None:
    convert = conversion(kind)
    assert convert is not None
    assert convert(None) is None


@pytest.mark.parametrize("kind", [None, INT, STRING, list_of(STRING), map_of(STRING, INT), optional_of(INT)])
def test_what_json_has_stays_as_it_is(kind: Type | None) -> None:
    assert conversion(kind) is None


@pytest.mark.parametrize(("kind", "given"), [(BYTES, "?"), (TIMESTAMP, "now"), (DURATION, "1 year"), (DURATION, "x")])
def test_what_means_nothing_is_an_error(kind: Type, given: str) -> None:
    convert = conversion(kind)
    assert convert is not None
    with pytest.raises(EvaluationError):
        convert(given)
