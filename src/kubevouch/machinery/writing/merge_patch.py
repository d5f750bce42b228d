"""Merge patches (RFC 7386): objects merge, ``null`` removes, everything else replaces.

Sources: gopkg.in/evanphx/json-patch.v4 merge.go, k8s.io/apiserver/pkg/endpoints/handlers/patch.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.writing.json_patch import too_deep

_BAD_PATCH = "Invalid JSON Patch"


class MergePatch(msgspec.Struct, frozen=True):
    """The tree of a patch, and what strict reading has against its text."""

    tree: Any
    strict_errors: tuple[str, ...] = ()


def decode(data: bytes, *, strict: bool = True) -> MergePatch:
    """Reads the body of a patch.

    Args:
        strict: False with ``fieldValidation=Ignore``, which also changes the words of errors and lets a list through:
            it then becomes the whole document.

    Raises:
        APIStatusError: 400.
    """
    try:
        tree = gojson.loads(data)
    except gojson.JSONSyntaxError as err:
        raise errors.bad_request(f"error decoding patch: {err}" if strict else _BAD_PATCH) from err
    if strict and tree is not None and not isinstance(tree, dict):
        kind = json_codec.go_kind(tree)
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(tree, (dict, list)):
        raise errors.bad_request(_BAD_PATCH)
    return MergePatch(tree, tuple(gojson.duplicate_fields(tree)) if strict else ())


def apply(document: Any, patch: MergePatch) -> Any:
    """``document`` merged with the patch; neither is changed, parts of both are shared by the result.

    Raises:
        APIStatusError: 400 for one that nests too deeply.
    """
    try:
        if not isinstance(patch.tree, dict) or not isinstance(document, dict):
            return _without_nulls(patch.tree)
        return _merge(document, patch.tree)
    except RecursionError as err:
        raise too_deep() from err


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _merged(current: Any, value: Any) -> Any:
    if isinstance(current, dict):
        return _merge(current, value) if isinstance(value, dict) else value
    return _without_nulls(value)


def _without_nulls(value: Any) -> Any:
    """What is new loses its nulls; those that are items of a list stay."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
