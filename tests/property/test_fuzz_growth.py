"""Twice the input takes twice the time, whatever it is made of."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz_targets import TARGETS, Target
from property.fuzz_strategies import examples

SMALL, TIMES = 4096, 16
# Linear is 16, quadratic 256; between them there is room for caches, garbage collection and a busy machine.
TOO_MUCH = 90
# What costs less for the large input is no finding, however it grew.
FLOOR_SECONDS = 0.02
# Beside the words of the grammar: what parsers skip, count, or look back from.
PLAIN = (b" ", b"a", b"\n", b"-", b"9", b"\\", b'"', b"\0", b"%", b"a: 1\n", b'{"a":', b"a,", b"&a a\n", b"- ")


def cost(target: Target, data: bytes) -> float:
    """Seconds of this thread's processor time, the better of two."""
    found = []
    for _ in range(2):
        start = time.thread_time()
        try:
            target.parse(data)
        except target.refuses_with:
            pass
        found.append(time.thread_time() - start)
    return min(found)


def test_the_measure_tells_quadratic_from_linear() -> None:
    linear = Target(lambda data: sum(data), (), [])
    quadratic = Target(lambda data: [sum(data[at:]) for at in range(0, len(data), 128)], (), [])
    assert grown(linear, b"", b"a", b"") is None
    assert grown(quadratic, b"", b"a", b"") is not None


def grown(target: Target, before: bytes, word: bytes, behind: bytes) -> str | None:
    """What is wrong with the time for ``word`` over and over; nothing if nothing is."""
    large = cost(target, before + word * (SMALL * TIMES // len(word)) + behind)
    if large < FLOOR_SECONDS:
        return None
    small = cost(target, before + word * (SMALL // len(word)) + behind)
    if large < TOO_MUCH * max(small, FLOOR_SECONDS / TIMES / TIMES):
        return None
    return f"{word!r} between {before[-40:]!r} and {behind[:40]!r}: {small:.4f} s, {TIMES} times as much {large:.4f} s"


@pytest.mark.parametrize("name", TARGETS)
@examples(12)
@given(data=st.data())
def test_time_grows_with_the_input(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    seed = data.draw(st.sampled_from([b"", *target.seeds]))
    at = data.draw(st.integers(0, len(seed)))
    word = data.draw(st.sampled_from([*_short(target), *PLAIN]))
    assert grown(target, seed[:at], word, seed[at:]) is None


def _short(target: Target) -> Iterator[bytes]:
    return (word for word in target.words if 0 < len(word) < 100)
