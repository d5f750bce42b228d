"""admission/open_objects.py: what is counted, and what not any more."""

from __future__ import annotations

from kubevouch.admission.open_objects import EACH_BYTES, OpenObject, OpenObjects

A, B = "198.51.100.7", "203.0.113.1"


def opened(*found: OpenObject) -> OpenObjects:
    objects = OpenObjects()
    for number, each in enumerate(found):
        objects.add(f"o{number}", each)
    return objects


def test_everything_is_counted_by_requester_source_and_subject() -> None:
    objects = opened(
        OpenObject("t", A, b"x", 10),
        OpenObject("t", A, b"y", 20),
        OpenObject("u", A, b"x", 5),
        OpenObject("t", B, b"x"),
    )
    assert (objects.count("t"), objects.count("u"), objects.count("v")) == (3, 1, 0)
    assert (objects.size("t"), objects.size_from(A), objects.size_from(B)) == (30, 35, 0)
    assert (objects.count_from(A, b"x"), objects.count_from(B, b"y")) == ((3, 2), (1, 0))


def test_nobody_says_from_where() -> None:
    objects = opened(OpenObject("jane", size=7), OpenObject("jane"))
    assert (objects.count("jane"), objects.count_from("", b""), objects.size_from("")) == (2, (0, 0), 0)
    assert objects.largest_source("jane") == ("", ["o0", "o1"])


def test_the_largest_source_and_its_oldest_first() -> None:
    objects = opened(
        OpenObject("t", A, created=9), OpenObject("t", A, created=2), OpenObject("t", B, created=1), OpenObject("u", B)
    )
    assert objects.largest_source("t") == (A, ["o1", "o0"])
    assert objects.largest_source("nobody") == ("", ())
    objects.discard("o0")
    objects.add("o9", OpenObject("t", B, created=5))
    assert objects.largest_source("t") == (B, ["o2", "o9"])


def test_what_is_closed_counts_no_more_and_leaves_nothing() -> None:
    objects = opened(OpenObject("t", A, b"x", 10), OpenObject("t"), OpenObject("u", B, b"y"))
    assert "o0" in objects
    objects.add("o0", OpenObject("another", B, b"z", 99))
    assert objects.count("another") == 0
    assert objects.discard("o0") == OpenObject("t", A, b"x", 10)
    assert objects.discard("o0") is None and "o0" not in objects
    objects.discard("o1")
    objects.discard("o2")
    assert not any(vars(objects).values())
    objects.add("o3", OpenObject("t", A, b"x", 1))
    objects.clear()
    assert not any(vars(objects).values())


def test_few_large_ones_are_more_than_many_small_ones() -> None:
    objects = opened(*[OpenObject("t", A)] * 9, OpenObject("t", B, size=40 << 10), OpenObject("t", B, size=40 << 10))
    assert objects.largest_source("t") == (B, ["o9", "o10"])
    assert objects.weight("t", A) == 9 * EACH_BYTES and objects.weight("t", "x") == 0
