"""When two JSON values are the same."""

from __future__ import annotations

from typing import Any


def same(left: Any, right: Any) -> bool:
    """As JSON values: Python takes True for 1, JSON does not; 1 and 1.0 are one number."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        for key, value in left.items():  # noqa: SIM110 - values nest deep: an iterator is one more call for each level
            if key not in right or not same(value, right[key]):
                return False
        return True
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        for index, value in enumerate(left):  # noqa: SIM110 - as above
            if not same(value, right[index]):
                return False
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
