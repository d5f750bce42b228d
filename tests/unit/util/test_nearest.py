"""util/nearest.py: what a mistyped word may have been."""

from __future__ import annotations

import pytest

from kubevouch.util.nearest import meant

WORDS = ("status", "start", "finish")


@pytest.mark.parametrize(
    ("word", "hint", "said"),
    [
        ("stauts", "", "did you mean status or start?"),
        ("stat", "see --help", "did you mean start or status? see --help"),
        ("fnish", "", "did you mean finish?"),
        ("explode", "see --help", "see --help"),
        ("", "see --help", "see --help"),
    ],
)
def test_what_was_meant(word: str, hint: str, said: str) -> None:
    assert meant(word, WORDS, hint) == said


def test_a_cluster_with_endless_names_is_not_compared_whole() -> None:
    def names() -> object:
        yield from (f"csr-{number}" for number in range(5000))
        raise AssertionError("asked for more")

    assert meant("node-csr", names()) == ""  # type: ignore[arg-type]  # what it yields is what it takes
