"""Events that are too large."""

import json
from typing import Any

import pytest

from kubevouch.server.audit.truncate import truncated


def event(level: str, **more: Any) -> bytes:
    return json.dumps({"kind": "Event", "level": level, "requestURI": "/x", **more}).encode()


def test_an_event_of_just_the_size_is_left_alone() -> None:
    whole = event("RequestResponse", responseObject={"a": "b"})
    assert truncated(whole, len(whole) + 1) is whole  # the newline counts
    assert truncated(whole, len(whole)) != whole


@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
def test_objects_go_and_an_annotation_says_so(level: str) -> None:
    large = event(level, requestObject={"a": "x" * 500}, responseObject={"b": 1}, annotations={"k": "v"})
    smaller = truncated(large, 200)
    assert smaller is not None
    assert json.loads(smaller) == {
        "kind": "Event",
        "level": level,
        "requestURI": "/x",
        "annotations": {"k": "v", "audit.k8s.io/truncated": "true"},
    }


@pytest.mark.parametrize(
    "large", [event("Metadata", userAgent="x" * 500), event("Request", userAgent="x" * 500, requestObject={})]
)
def test_what_is_too_large_without_objects_is_dropped(large: bytes) -> None:
    assert truncated(large, 200) is None
