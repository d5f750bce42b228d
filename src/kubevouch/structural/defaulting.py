"""What is absent is filled in, in place; nulls that mean nothing go first.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go, prune.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubevouch.structural.schema import NO_DEFAULT, Schema

# As much as a request may have; storage takes half of that.
MOST_BYTES: Final = 3 << 20


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Take away nulls of declared fields that may neither be null nor have a default."""
    if schema is None:
        return
    if isinstance(value, dict):
        for key, item in list(value.items()):
            declared = schema.properties.get(key)
            if item is None:
                if declared is not None and not declared.nullable and declared.default is NO_DEFAULT:
                    del value[key]
            elif isinstance(item, (dict, list)):
                drop_nulls(item, declared if declared is not None else schema.values)
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            if isinstance(item, (dict, list)):
                drop_nulls(item, schema.items)


def fill(value: Any, schema: Schema | None) -> bool:
    """Give declared fields that are absent their defaults; a parent is never made for the default of a child.

    Returns:
        Whether that was all: it stops where defaults come to more than ``MOST_BYTES``, for a short list of empty items
        may have a long default for each.
    """
    try:
        _Filling().fill(value, schema)
    except _Enough:
        return False
    return True


class _Enough(Exception):
    pass


class _Filling:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_BYTES

    def fill(self, value: Any, schema: Schema | None) -> None:
        if schema is None or not schema.fills:
            return
        if isinstance(value, dict):
            for key, declared in schema.properties.items():
                if declared.default is not NO_DEFAULT and (key not in value or _is_no_value(value[key], declared)):
                    value[key] = self.default(declared)
            values = schema.values
            for key, item in value.items():
                below = schema.properties.get(key, values)
                if below is not None:
                    if key not in schema.properties and _is_no_value(item, below):
                        value[key] = item = self.default(below)
                    self.fill(item, below)
        elif isinstance(value, list) and schema.items is not None:
            for index, item in enumerate(value):
                filled = item
                if _is_no_value(item, schema.items):
                    value[index] = filled = self.default(schema.items)
                self.fill(filled, schema.items)

    def default(self, schema: Schema) -> Any:
        if schema.default is NO_DEFAULT:
            return None
        self.left -= len(schema.default_json)
        if self.left < 0:
            raise _Enough
        return msgspec.json.decode(schema.default_json) if isinstance(schema.default, (dict, list)) else schema.default


def _is_no_value(value: Any, schema: Schema) -> bool:
    return value is None and not schema.nullable
