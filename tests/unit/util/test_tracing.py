"""util/tracing.py: the current span, names from outside, and origins that are bounded."""

from __future__ import annotations

import pytest

from kubevouch.util import tracing
from kubevouch.util.tracing import Attribute, Kind, Origins, Span

GOOD = f"00-{'a' * 32}-{'b' * 16}-01"


class Noted:
    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self._told = told

    @property
    def traceparent(self) -> str:
        return f"parent-{self.name}"

    def set(self, name: str, value: Attribute) -> None:
        self._told.append(f"{self.name}.{name}={value}")

    def fail(self, why: str) -> None:
        self._told.append(f"{self.name} failed: {why}")

    def child(self, name: str, kind: Kind, attributes: dict[str, Attribute]) -> Span:
        return Noted(f"{self.name}/{name}:{kind.value}{attributes or ''}", self._told)

    def end(self) -> None:
        self._told.append(f"{self.name} ended")


def test_children_end_before_their_parents() -> None:
    told: list[str] = []
    with tracing.active(Noted("root", told)):
        assert tracing.traceparent() == "parent-root"
        with tracing.child("call", Kind.CLIENT, at=1) as span:
            assert span is tracing.current()
        assert tracing.traceparent() == "parent-root"
    assert told == ["root/call:client{'at': 1} ended", "root ended"]
    assert tracing.traceparent() == ""


def test_an_exception_fails_the_spans_it_leaves() -> None:
    told: list[str] = []
    with pytest.raises(ValueError, match="no"), tracing.active(Noted("root", told)):
        raise ValueError("no")
    assert told == ["root failed: ValueError", "root ended"]
    assert tracing.current() is None


@pytest.mark.parametrize("text", [GOOD, f"01-{'a' * 32}-{'b' * 16}-01-more"])
def test_names_that_are_believed(text: str) -> None:
    assert tracing.parse(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD.upper(),
        GOOD + "\n",
        GOOD + "-more",
        f"ff-{'a' * 32}-{'b' * 16}-01",
        f"00-{'0' * 32}-{'b' * 16}-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"00-{'a' * 31}-{'b' * 16}-01",
        "01" + GOOD[2:] + "-" + "x" * 300,
    ],
)
def test_names_that_count_as_none(text: str) -> None:
    assert tracing.parse(text) == ""


def test_origins_forget_the_oldest() -> None:
    origins = Origins(2)
    for key in ("a", "b", "a", "c"):
        origins.remember(key, f"of {key}")
    assert [origins.get(key) for key in ("a", "b", "c")] == ["of a", "", "of c"]
