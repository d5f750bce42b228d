"""Inputs for parsers: what they accept, damaged here and there."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MAX_EDITS = 6


def examples(count: int) -> settings:
    """``count`` examples; with a profile that has more than the usual hundred, as many times more."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=count * settings().max_examples // 100, suppress_health_check=slow)


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> bytes:
    """One of ``seeds`` with a few places cut out, repeated, overwritten, or filled with ``words`` and stray bytes."""
    data = draw(st.sampled_from(seeds))
    pieces = st.binary(max_size=8) if not words else st.sampled_from(words) | st.binary(max_size=8)
    for _ in range(draw(st.integers(0, MAX_EDITS))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 40)))
        edit = draw(st.sampled_from(("insert", "insert", "replace", "cut", "repeat", "end")))
        if edit == "insert":
            data = data[:start] + draw(pieces) + data[start:]
        elif edit == "replace":
            piece = draw(pieces)
            data = data[:start] + piece + data[start + len(piece) :]
        elif edit == "cut":
            data = data[:start] + data[stop:]
        elif edit == "repeat":
            data = data[:stop] + data[start:stop] * draw(st.integers(1, 5)) + data[stop:]
        else:
            data = data[:start]
    return data


def inputs(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Mostly damaged seeds, also words in a row, and any bytes at all."""
    nonsense = st.binary(max_size=60)
    rows = st.lists(st.sampled_from(words) | st.binary(max_size=3), max_size=12).map(b"".join) if words else nonsense
    return st.one_of(damaged(seeds, words), damaged(seeds, words), rows, nonsense)
