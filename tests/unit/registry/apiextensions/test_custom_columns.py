from __future__ import annotations

import datetime as dt
from typing import Any

from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.registry.apiextensions import custom_columns
from kubevouch.structural.paths import MAX_LOOKED_AT

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def cells(content: dict[str, Any], *paths: tuple[str, str]) -> list[object]:
    columns = [{"name": "c", "type": kind, "jsonPath": path} for kind, path in paths]
    obj = CustomObject(metadata=ObjectMeta(name="w"), content=content)
    return list(custom_columns.printer(columns).cells(obj, NOW))


def test_the_columns_of_an_object_share_what_they_may_look_at() -> None:
    """Two hundred columns that each look through the whole object held the loop for seconds."""
    wide = {"spec": {"a": [{} for _ in range(MAX_LOOKED_AT)], "size": 3}}
    through, size = ("string", "..absent"), ("integer", ".spec.size")

    assert cells(wide, size, through) == ["w", 3, None]
    assert cells(wide, through, size) == ["w", None, None]


def test_an_integer_is_one_of_64_bits() -> None:
    assert cells({"a": 1e300, "b": 2.5}, ("integer", ".a"), ("integer", ".b")) == ["w", None, 2]
