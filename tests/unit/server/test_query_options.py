from __future__ import annotations

from collections.abc import Callable

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.server.query import Query
from kubevouch.server.query_options import (
    MAX_LIMIT,
    create_options,
    delete_options,
    integer,
    list_options,
    patch_options,
    update_options,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("0", 0),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
    ],
)
def test_integer(text: str, value: int | None) -> None:
    assert integer(Query(values={"limit": [text]}), "limit") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("1\n", "invalid syntax"),
        ("1_000", "invalid syntax"),
        ("٣", "invalid syntax"),
        ("--1", "invalid syntax"),
        (str(2**63), "value out of range"),
        (str(-(2**63) - 1), "value out of range"),
        ("9" * 10_000, "value out of range"),
    ],
)
def test_what_is_no_integer(text: str, why: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        integer(Query(values={"limit": [text]}), "limit")
    assert caught.value.code == 400
    assert caught.value.status.message == f'strconv.ParseInt: parsing "{text}": {why}'


@pytest.mark.parametrize("read", [create_options, update_options, lambda query: patch_options(query, apply=False)])
def test_options_of_writes(read: Callable[[Query], object]) -> None:
    options = read(Query("dryRun=All&fieldManager=kubectl&fieldValidation=Strict"))
    assert options.dry_run == ["All"]  # type: ignore[attr-defined] # one field of three kinds of options
    with pytest.raises(APIStatusError) as caught:
        read(Query("dryRun=Some"))
    assert caught.value.code == 422
    assert 'dryRun: Unsupported value: ["Some"]: supported values: "All"' in caught.value.status.message
    with pytest.raises(APIStatusError, match="fieldValidation"):
        read(Query("fieldValidation=Sloppy"))


def test_force_is_for_apply() -> None:
    assert patch_options(Query("fieldManager=me"), apply=True).force is None
    assert patch_options(Query("fieldManager=me&force=true"), apply=True).force is True
    assert patch_options(Query("fieldManager=me&force=0"), apply=True).force is False
    for query, apply in (("force=true", False), ("", True)):
        with pytest.raises(APIStatusError) as caught:
            patch_options(Query(query), apply=apply)
        assert caught.value.code == 422


def test_options_of_a_deletion_come_from_the_body_or_from_the_query() -> None:
    query = Query("gracePeriodSeconds=5&propagationPolicy=Orphan&preconditions.uid=7")
    options = delete_options(query, None)
    assert options.grace_period_seconds == 5
    assert options.propagation_policy == "Orphan"
    assert options.preconditions == Preconditions(uid="7")
    assert delete_options(query, DeleteOptions(grace_period_seconds=9)) == DeleteOptions(grace_period_seconds=9)
    assert delete_options(Query(), None).preconditions is None


@pytest.mark.parametrize(
    "query", ["propagationPolicy=Never", "dryRun=no", "orphanDependents=true&propagationPolicy=Orphan"]
)
def test_deletions_that_mean_nothing(query: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        delete_options(Query(query), None)
    assert caught.value.code == 422


@pytest.mark.parametrize(("text", "limit"), [("", 0), ("0", 0), ("1", 1), ("-1", 0), (str(MAX_LIMIT + 1), MAX_LIMIT)])
def test_limit_is_bounded(text: str, limit: int) -> None:
    assert list_options(Query(f"limit={text}"), watch=False).limit == limit


def test_options_of_a_list() -> None:
    query = Query(
        "labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact&allowWatchBookmarks&timeoutSeconds=3"
    )
    options = list_options(query, watch=False).options
    assert (options.label_selector, options.resource_version, options.resource_version_match) == ("a=b", "7", "Exact")
    assert (options.allow_watch_bookmarks, options.timeout_seconds) == (True, 3)
    assert options.send_initial_events is None


@pytest.mark.parametrize(
    ("query", "watch"),
    [
        ("resourceVersionMatch=Exact", False),
        ("resourceVersion=7&resourceVersionMatch=Newest", False),
        ("resourceVersion=0&resourceVersionMatch=Exact", False),
        ("sendInitialEvents=true", False),
        ("sendInitialEvents=true", True),
    ],
)
def test_lists_that_mean_nothing(query: str, watch: bool) -> None:
    with pytest.raises(APIStatusError) as caught:
        list_options(Query(query), watch=watch)
    assert caught.value.code == 422
