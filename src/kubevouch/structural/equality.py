"""When two JSON values are the same."""

from __future__ import annotations

from typing import Any


def same(left: Any, right: Any) -> bool:
    """As JSON values: Python takes True for 1, JSON does not; 1 and 1.0 are one number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
