"""Lists in which nothing may be twice: sets, and maps by their keys.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.structural.schema import Schema


def check_lists(value: Any, schema: Schema | None, path: str = "") -> list[FieldError]:
    """What is more than once where it may be once."""
    return list(_check(value, schema, path))


def _check(value: Any, schema: Schema | None, path: str) -> Iterator[FieldError]:
    if schema is None or not schema.has_unique:
        return
    if isinstance(value, list):
        if schema.list_type == "set":
            yield from (field.duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value))
        elif schema.list_type == "map":
            yield from _check_map(value, schema, path)
        if schema.items is not None and schema.items.has_unique:
            for index, item in enumerate(value):
                yield from _check(item, schema.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        values = schema.values
        for key, item in value.items():
            if values is not None:
                yield from _check(item, values, f"{path}[{key}]")
            elif (below := schema.properties.get(key)) is not None:
                yield from _check(item, below, f"{path}.{key}" if path else key)


def _check_map(value: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            yield field.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [{name: item[name] for name in schema.map_keys if name in item} if item else {} for item in value]
    yield from (field.duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(keys))


def _repeated(values: list[Any]) -> list[int]:
    """Where each value that is there more than once is for the second time."""
    seen: dict[Hashable, int] = {}
    found = []
    for index, value in enumerate(values):
        identity = _identity(value)
        times = seen[identity] = seen.get(identity, 0) + 1
        if times == 2:
            found.append(index)
    return found


def _identity(value: Any) -> Hashable:
    # Python takes 1 for true and for 1.0; of numbers that come out of JSON Go keeps integers and floats apart.
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, order="deterministic")
    return type(value), value
