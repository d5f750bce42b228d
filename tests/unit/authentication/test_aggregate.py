from __future__ import annotations

import pytest

from kubevouch.authentication.aggregate import aggregate


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([], ""), (["a"], "a"), (["a", "a"], "a"), (["b", "a", "b"], "[b, a]"), ([ValueError("x")], "x")],
)
def test_aggregate(errors: list[object], expected: str) -> None:
    assert aggregate(errors) == expected
