"""Whole objects inside of others: their ``apiVersion``, ``kind`` and ``metadata`` are those of any object.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kubevouch.machinery import custom_object, field
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.object_meta import validate_object_meta
from kubevouch.machinery.scheme import GroupVersion
from kubevouch.machinery.text import names
from kubevouch.structural.schema import Schema

# The names of embedded objects are optional; something has to stand there where their form is checked.
_SOME_NAME = "fakename"


class Malformed(UnmarshalError):
    """An embedded object is none; ``error`` says where and why."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def coerce(tree: Any, schema: Schema, path: str = "", *, drop_malformed: bool = False) -> list[str]:
    """Take unknown fields from the metadata of embedded objects, in place.

    Args:
        path: where ``tree`` stands in its document.
        drop_malformed: fields of a wrong type go as well: what was stored once has to be readable.

    Returns:
        The paths of the fields that went because they are unknown, sorted.

    Raises:
        Malformed: a field has a wrong type.
    """
    gone: list[str] = []
    for value, at, shown in _embedded(tree, schema, path, path):
        _coerce_type_meta(value, at, drop=drop_malformed)
        if "metadata" in value:
            _coerce_metadata(value, at, shown, gone, drop=drop_malformed)
    return sorted(gone)


def check_embedded(tree: Any, schema: Schema, path: str = "") -> list[FieldError]:
    """What is wrong with embedded objects as objects; apiVersion and kind they must have, names they may."""
    errors: list[FieldError] = []
    for value, at, _ in _embedded(tree, schema, path, path):
        errors += check_object(value, at)
    return errors


def check_object(value: dict[str, Any], path: str) -> list[FieldError]:
    """What is wrong with one of them."""
    errors = _check_text(value, "apiVersion", path, _api_version_faults)
    errors += _check_text(value, "kind", path, _kind_faults)
    if "metadata" in value:
        at = _join(path, "metadata")
        try:
            metadata = json_codec.from_tree(_object_or_none(value["metadata"]), ObjectMeta).value
        except UnmarshalError as err:
            errors.append(field.invalid(at, value["metadata"], str(err)))
        else:
            named = metadata if metadata.name else msgspec.structs.replace(metadata, name=_SOME_NAME)
            errors += validate_object_meta(
                named, bool(metadata.namespace), names.path_segment_name, at, standard_finalizers=False
            )
    return errors


def coerce_object(value: dict[str, Any]) -> None:
    """As :func:`coerce`, of one object.

    Raises:
        Malformed
    """
    _coerce_type_meta(value, "", drop=False)
    if "metadata" in value:
        _coerce_metadata(value, "", "", [], drop=False)


def _embedded(value: Any, schema: Schema | None, path: str, shown: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Each embedded object with its path as errors print it, and as warnings do."""
    if schema is None or not schema.has_embedded:
        return
    if isinstance(value, dict):
        if schema.embedded:
            yield value, path, shown
        values = schema.values
        for key, item in value.items():
            if (below := schema.properties.get(key)) is not None:
                yield from _embedded(item, below, _join(path, key), _join(shown, key))
            elif values is not None:
                yield from _embedded(item, values, f"{path}[{key}]", _join(shown, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _embedded(item, schema.items, f"{path}[{index}]", f"{shown}[{index}]")


def _coerce_type_meta(value: dict[str, Any], path: str, *, drop: bool) -> None:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            if not drop:
                raise Malformed(field.invalid(_join(path, name), value[name], "must be a string"))
            del value[name]


def _coerce_metadata(value: dict[str, Any], path: str, shown: str, gone: list[str], *, drop: bool) -> None:
    given = value["metadata"]
    try:
        decoded = json_codec.from_tree(_object_or_none(given), ObjectMeta, _join(shown, "metadata"))
    except UnmarshalError as err:
        if not drop:
            raise Malformed(field.invalid(_join(path, "metadata"), given, str(err))) from err
        if isinstance(given, dict):
            value["metadata"] = json_codec.to_builtins(custom_object.lenient_metadata(given))
        return
    gone.extend(
        complaint.removeprefix('unknown field "')[:-1]
        for complaint in decoded.strict_errors
        if complaint.startswith("unknown")
    )
    value["metadata"] = json_codec.to_builtins(decoded.value)


def _object_or_none(metadata: Any) -> Any:
    return {} if metadata is None else metadata


def _check_text(value: dict[str, Any], name: str, path: str, faults: Callable[[str], str]) -> list[FieldError]:
    at, text = _join(path, name), value.get(name)
    if name not in value or text == "":
        return [field.required(at)]
    if not isinstance(text, str):
        return [field.invalid(at, text, "must be a string")]
    why = faults(text)
    return [field.invalid(at, text, why)] if why else []


def _api_version_faults(text: str) -> str:
    try:
        GroupVersion.parse(text)
    except ValueError as err:
        return str(err)
    return ""


def _kind_faults(text: str) -> str:
    found = names.dns_1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(found)}" if found else ""


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
