"""The table columns of a custom kind.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Column, Printer
from kubevouch.registry.printing import age
from kubevouch.structural import paths
from kubevouch.structural.paths import Budget, Path, PathError

_INVALID = "<invalid>"
NAME = Column(
    "Name",
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some resources "
    "may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for "
    "creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_CREATED = ".metadata.creationTimestamp"
AGE = Column(
    "Age",
    type="date",
    description="CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is "
    "represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
)

_Cell = Callable[[Any, dt.datetime, Budget], object]


def printer(columns: Sequence[Mapping[str, Any]]) -> Printer:
    """The printer for a version's ``additionalPrinterColumns``; at a path that cannot be read the columns end."""
    if not columns:
        return Printer((NAME, AGE), lambda obj, now: [obj.metadata.name, created(obj, now)])
    shown: list[Column] = []
    cells: list[_Cell] = []
    for column in columns:
        path = column.get("jsonPath") or ""
        try:
            find = paths.parse(path)
        except PathError:
            break
        kind = column.get("type") or ""
        shown.append(
            Column(
                column.get("name") or "",
                type=kind,
                format=column.get("format") or "",
                description=column.get("description")
                or f"Custom resource definition column (in JSONPath format): {path}",
                priority=column.get("priority") or 0,
            )
        )
        cells.append(created if (kind, path) == ("date", _CREATED) else _cell(kind, find, ".metadata" in path))
    plain = tuple(cells)

    def row(obj: Any, now: dt.datetime) -> list[object]:
        # Of all cells together: a definition may have many columns, each of which looks through the whole object.
        budget = Budget()
        return [obj.metadata.name, *(cell(obj, now, budget) for cell in plain)]

    return Printer((NAME, *shown), row)


def created(obj: Object, now: dt.datetime, _budget: Budget | None = None) -> object:
    return age(obj.metadata.creation_timestamp, now)


def _cell(kind: str, path: Path, of_metadata: bool) -> _Cell:
    convert = _CONVERSIONS.get(kind, _nothing)

    def cell(obj: CustomObject, now: dt.datetime, budget: Budget) -> object:
        tree = obj.content
        if of_metadata:
            tree = {**tree, "metadata": json_codec.to_builtins(obj.metadata)}
        tree = {**tree, "kind": obj.kind, "apiVersion": obj.api_version}
        found = path.first(tree, budget)
        return convert(found[0], now) if found else None

    return cell


def _nothing(_value: Any, _now: dt.datetime) -> object:
    return None


def _text(value: Any, _now: dt.datetime) -> object:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, float):
        return f"{value:g}" if value == float(f"{value:g}") else repr(value)
    return json_codec.encode(value).decode()


def _integer(value: Any, _now: dt.datetime) -> object:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        return None
    return int(value)


def _number(value: Any, _now: dt.datetime) -> object:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: dt.datetime) -> object:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: dt.datetime) -> object:
    if not isinstance(value, str):
        return None
    try:
        return age(Time.parse(value) if value else None, now)
    except ValueError:
        return _INVALID


_CONVERSIONS: dict[str, Callable[[Any, dt.datetime], object]] = {
    "string": _text, "integer": _integer, "number": _number, "boolean": _boolean, "date": _date,
}  # fmt: skip
