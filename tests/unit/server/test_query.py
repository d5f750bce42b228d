"""server/query.py: query parameters as leniently as Go reads them."""

from __future__ import annotations

import pytest

from kubevouch.server.query import MAX_QUERY_FIELDS, Query


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        ("a=1", ["1"]),
        ("a=1&a=2", ["1", "2"]),
        ("a=x+y%2Bz%3D", ["x y+z="]),
        ("a=x+y", ["x y"]),
        ("%61=1", ["1"]),
        ("a=b=c", ["b=c"]),
        ("a", [""]),
        ("a=", [""]),
        ("&&a=1&", ["1"]),
        ("a=1;b=2&a=3", ["3"]),
        ("a=%zz", ["%zz"]),
        ("A=1", []),
        ("", []),
    ],
)
def test_values(raw: str, values: list[str]) -> None:
    query = Query(raw)
    assert (query.all("a"), "a" in query, query.raw) == (values, bool(values), raw)
    assert "" not in query
    assert query.get("a", "none") == (values[0] if values else "none")


def test_no_more_fields_than_a_bound() -> None:
    full = "&".join(f"a={number}" for number in range(MAX_QUERY_FIELDS + 1))
    assert len(Query(full).all("a")) == MAX_QUERY_FIELDS
    # What Go passes over takes nobody's place.
    assert Query(";&" * MAX_QUERY_FIELDS + "a=1").all("a") == ["1"]


def test_values_that_are_given() -> None:
    query = Query(values={"a": ["1", "2"], "none": []})
    assert (query.get("a"), query.get("none", "x"), query.raw) == ("1", "x", "")


@pytest.mark.parametrize(
    ("raw", "flag"),
    [("", False), ("a", True), ("a=", True), ("a=1", True), ("a=no", True), ("a=0", False), ("a=FALSE", False)],
)
def test_flags(raw: str, flag: bool) -> None:
    assert Query(raw).flag("a") is flag
