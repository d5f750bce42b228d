"""What is wrong with the parts of a version besides its schema.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceColumnDefinition,
    CustomResourceSubresources,
    CustomResourceSubresourceScale,
    SelectableField,
)
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import gotext
from kubevouch.structural.rules import InvalidPath, walked
from kubevouch.structural.schema import compile_schema

MAX_SELECTABLE_FIELDS = 8
MAX_DEPRECATION_WARNING = 256
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES = ("string", "boolean", "integer")


def warning_faults(warning: str | None, *, deprecated: bool) -> list[str]:
    """What is wrong with what users of a version are warned of."""
    if warning is None:
        return []
    if not deprecated:
        return ["can only be set for deprecated versions"]
    faults = []
    if len(warning.encode()) > MAX_DEPRECATION_WARNING:
        faults.append(f"must be <= {MAX_DEPRECATION_WARNING} characters long")
    if not warning:
        faults.append("must not be an empty string")
    for index, char in enumerate(warning):
        if not gotext.is_printable(char):
            at = len(warning[:index].encode())
            faults.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
            break
    return faults


def subresource_errors(subresources: CustomResourceSubresources | None, path: str) -> list[FieldError]:
    """What is wrong with the subresources of a version."""
    scale = None if subresources is None else subresources.scale
    return [] if scale is None else _scale_errors(scale, f"{path}.scale")


def _scale_errors(scale: CustomResourceSubresourceScale, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text, below in (
        ("specReplicasPath", scale.spec_replicas_path, ".spec"),
        ("statusReplicasPath", scale.status_replicas_path, ".status"),
    ):
        if not text:
            errors.append(field.required(f"{path}.{name}"))
        else:
            errors += _simple_path_errors(f"{path}.{name}", text) or _below_errors(
                f"{path}.{name}", text, (f"{below}.",), f"should be a json path under {below}"
            )
    text = scale.label_selector_path or ""
    if text:
        where = f"{path}.labelSelectorPath"
        errors += _simple_path_errors(where, text) or _below_errors(
            where, text, (".spec.", ".status."), "should be a json path under either .spec or .status"
        )
    return errors


def _simple_path_errors(path: str, text: str) -> list[FieldError]:
    return [] if text.startswith(".") else [field.invalid(path, text, "must be a simple json path starting with .")]


def _below_errors(path: str, text: str, prefixes: tuple[str, ...], why: str) -> list[FieldError]:
    return [] if text.startswith(prefixes) else [field.invalid(path, text, why)]


def column_errors(columns: Sequence[CustomResourceColumnDefinition], path: str) -> list[FieldError]:
    """What is wrong with the columns of its tables."""
    errors: list[FieldError] = []
    types, formats = (f"must be one of {','.join(known)}" for known in (_COLUMN_TYPES, _COLUMN_FORMATS))
    for index, column in enumerate(columns):
        where = f"{path}[{index}]"
        if not column.name:
            errors.append(field.required(f"{where}.name"))
        if not column.type:
            errors.append(field.required(f"{where}.type", types))
        elif column.type not in _COLUMN_TYPES:
            errors.append(field.invalid(f"{where}.type", column.type, types))
        if column.format and column.format not in _COLUMN_FORMATS:
            errors.append(field.invalid(f"{where}.format", column.format, formats))
        if not column.json_path:
            errors.append(field.required(f"{where}.JSONPath"))
        else:
            errors += _simple_path_errors(f"{where}.JSONPath", column.json_path)
    return errors


def selectable_errors(fields: Sequence[SelectableField], tree: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the fields that selectors know; ``tree`` is the schema that they have to be in."""
    schema = compile_schema(tree)
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, selectable in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", selectable.json_path
        if not text:
            errors.append(field.required(where))
            continue
        try:
            found, at = walked(text, schema, brackets=False)
        except InvalidPath as err:
            errors.append(field.invalid(where, text, f"is an invalid path: {err}"))
            continue
        if found.partition(".")[0] == "metadata":
            errors.append(field.invalid(where, text, "must not point to fields in metadata"))
        if at.type not in _SELECTABLE_TYPES:
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(field.invalid(where, text, why))
        if found in seen:
            errors.append(field.duplicate(where, text))
        seen.add(found)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        errors.append(field.too_many(path, len(seen), MAX_SELECTABLE_FIELDS))
    return errors
