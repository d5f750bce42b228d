"""What a schema does not know goes away, in place.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

from kubevouch.structural.schema import Schema

IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
"""The keys of a whole object that no schema has to declare."""


def prune(tree: dict[str, Any], schema: Schema) -> list[str]:
    """Take from a whole object what ``schema`` does not declare; the paths that went, in no order."""
    gone: list[str] = []
    if schema.preserve_unknown:
        _keep(tree, schema, "", gone, whole=True)
    else:
        _prune_map(tree, schema, "", gone, whole=True)
    return gone


def prune_value(value: Any, schema: Schema) -> None:
    """Take from a part of an object what its schema does not declare."""
    _prune(value, schema, "", [])


def _prune(value: Any, schema: Schema | None, path: str, gone: list[str]) -> None:
    if isinstance(value, dict):
        if schema is None:
            gone.extend(_join(path, key) for key in value)
            value.clear()
        elif schema.preserve_unknown:
            _keep(value, schema, path, gone, whole=schema.embedded)
        else:
            _prune_map(value, schema, path, gone, whole=schema.embedded)
    elif isinstance(value, list):
        if schema is not None and schema.preserve_unknown:
            _keep(value, schema, path, gone, whole=False)
            return
        items = schema.items if schema is not None else None
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                _prune(item, items, f"{path}[{index}]", gone)


def _prune_map(value: dict[str, Any], schema: Schema, path: str, gone: list[str], *, whole: bool) -> None:
    properties = schema.properties
    for key, item in list(value.items()):
        declared = properties.get(key)
        if whole and key in IDENTITY:
            continue
        if declared is not None:
            if isinstance(item, (dict, list)):
                _prune(item, declared, _join(path, key), gone)
        elif schema.additional is not None:
            # A plain true keeps the key, and nothing of what is below it.
            _prune(item, schema.values, _join(path, key), gone)
        else:
            gone.append(_join(path, key))
            del value[key]


def _keep(value: Any, schema: Schema | None, path: str, gone: list[str], *, whole: bool) -> None:
    """Unknown keys stay; what is declared is looked at all the same."""
    if schema is None:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if whole and key in IDENTITY:
                continue
            declared = schema.properties.get(key)
            if declared is not None:
                _prune(item, declared, _join(path, key), gone)
            elif schema.additional is not None:
                _prune(item, schema.values, _join(path, key), gone)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _keep(item, schema.items, f"{path}[{index}]", gone, whole=False)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
