"""Whether a schema is structural: what is where is said once, and junctors only add conditions on values.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{validation,complete,convert}.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.cel.values import EvaluationError
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError

Tree = Mapping[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NAMES = frozenset({"name", "generateName"})
_EMBEDDED, _PRESERVE, _INT_STRING = (
    "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string",
)  # fmt: skip
_JUNCTORS = ("anyOf", "allOf", "oneOf")
_TYPE_MISSING = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
# What may not stand below a junctor, and why.
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "externalDocs": "must be undefined to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
# Not the empty value, but the absent one is allowed.
_POINTERS = frozenset({"additionalProperties", "externalDocs", "x-kubernetes-list-type", "x-kubernetes-map-type"})


def unsupported(tree: Tree) -> str:
    """Why the schema cannot even be looked at as a structural one; empty if it can."""
    for key in ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"):
        if tree.get(key) or (key == "additionalItems" and tree.get(key) is not None):
            return f"OpenAPIV3Schema '{key.removeprefix('$') if key == '$schema' else key}' is not supported"
    if tree.get(_PRESERVE) is False:
        return f"internal error: '{_PRESERVE}' must be true or undefined"
    items = tree.get("items")
    if isinstance(items, list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    below = [
        tree.get("not"), *(each for name in _JUNCTORS for each in tree.get(name) or ()),
        tree.get("additionalProperties"), items, *(tree.get("properties") or {}).values(),
    ]  # fmt: skip
    for each in below:
        if isinstance(each, Mapping) and (why := unsupported(each)):
            return why
    return ""


def check_structure(tree: Tree, path: str) -> list[FieldError]:
    """Why a schema that is not :func:`unsupported` is not structural, sorted by text."""
    found: list[FieldError] = []
    _check(tree, path, "root", found)
    _complete_junctors(tree, tree, path, path, found)
    return sorted(found, key=str)


def _check(tree: Tree, path: str, level: str, found: list[FieldError]) -> None:
    kind, items, properties = tree.get("type") or "", tree.get("items"), tree.get("properties") or {}
    additional = tree.get("additionalProperties")
    if items is not None:
        _check(items, f"{path}.items", "item", found)
    elif kind == "array":
        found.append(field.required(f"{path}.items", "must be specified"))
    for name, sub in properties.items():
        _check(sub, f"{path}.properties[{name}]", "field", found)
    if additional is not None:
        if level == "root":
            found.append(field.forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, Mapping):
            _check(additional, f"{path}.additionalProperties", "field", found)
    if tree.get(_INT_STRING):
        why = f"must be false if {_INT_STRING} is true"
        found += [field.invalid(f"{path}.{name}", True, why) for name in (_PRESERVE, _EMBEDDED) if tree.get(name)]
    all_of = tree.get("allOf") or []
    _check_values(
        tree, path, found,
        plain_any=tree.get("anyOf") == _INT_OR_STRING,
        plain_first=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )  # fmt: skip
    _check_type(tree, path, level, found)
    if level == "root" or tree.get(_EMBEDDED):
        for name in ("kind", "apiVersion"):
            declared = properties.get(name)
            if declared is not None and declared.get("type") != "string":
                at = f"{path}.properties[{name}].type"
                found.append(field.invalid(at, declared.get("type") or "", "must be string"))
        if "metadata" in properties:
            _check_metadata(properties["metadata"], f"{path}.properties[metadata]", level, found)


def _check_type(tree: Tree, path: str, level: str, found: list[FieldError]) -> None:
    kind, at = tree.get("type") or "", f"{path}.type"
    if tree.get(_EMBEDDED):
        if not kind:
            found.append(field.required(at, f"must be object if {_EMBEDDED} is true"))
        elif kind != "object":
            found.append(field.invalid(at, kind, f"must be object if {_EMBEDDED} is true"))
        if tree.get("additionalProperties") is not None:
            found.append(field.forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set"))
        if not tree.get(_PRESERVE) and not tree.get("properties"):
            why = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
            found.append(field.required(f"{path}.properties", why))
    elif not kind and not tree.get(_INT_STRING) and not tree.get(_PRESERVE):
        found.append(field.required(at, _TYPE_MISSING[level]))
    if level == "root" and kind not in ("", "object"):
        found.append(field.invalid(at, kind, "must be object at the root"))


def _check_metadata(tree: Tree, path: str, level: str, found: list[FieldError]) -> None:
    if tree.get("type") != "object":
        found.append(field.invalid(f"{path}.type", tree.get("type") or "", "must be object"))
    if level != "root":
        return
    # Its type and default are judged elsewhere; examples say nothing.
    beyond = tree.keys() - {"type", "default", "example"}
    if set(tree.get("properties") or {}) <= _NAMES:
        beyond -= {"properties"}
    if beyond:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        found.append(field.forbidden(path, why))


def _check_values(
    tree: Tree, path: str, found: list[FieldError], *, plain_any: bool = False, plain_first: bool = False
) -> None:
    """What a node says of values. The two ways of int-or-string are the only ones to name types below a junctor."""
    if not plain_any:
        for index, sub in enumerate(tree.get("anyOf") or ()):
            _check_nested(sub, f"{path}.anyOf[{index}]", found)
    for index, sub in enumerate(tree.get("allOf") or ()):
        _check_nested(sub, f"{path}.allOf[{index}]", found, plain_any=plain_first and index == 0)
    for index, sub in enumerate(tree.get("oneOf") or ()):
        _check_nested(sub, f"{path}.oneOf[{index}]", found)
    if tree.get("not") is not None:
        _check_nested(tree["not"], f"{path}.not", found)
    if pattern := tree.get("pattern"):
        try:
            compiled_pattern(pattern)
        except EvaluationError as err:
            why = f"must be a valid regular expression, but isn't: {err}"
            found.append(field.invalid(f"{path}.pattern", pattern, why))


def _check_nested(tree: Tree, path: str, found: list[FieldError], *, plain_any: bool = False) -> None:
    _check_values(tree, path, found, plain_any=plain_any)
    if tree.get("items") is not None:
        _check_nested(tree["items"], f"{path}.items", found)
    properties = tree.get("properties") or {}
    for name, sub in properties.items():
        _check_nested(sub, f"{path}.properties[{name}]", found)
    for name, why in _NOT_NESTED.items():
        value = tree.get(name)
        if value or (name in _POINTERS and value is not None) or (name == "default" and value is not None):
            found.append(field.forbidden(f"{path}.{name}", why))
    if "metadata" in properties:
        # Nothing below a junctor may restrict metadata.
        found.append(field.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))


# ------------------------------------------------------------------ completeness


def _complete_junctors(values: Tree, tree: Tree, at: str, from_: str, found: list[FieldError]) -> None:
    """Whether all that the junctors of ``values`` speak of is declared in ``tree``."""
    if values.get("not") is not None:
        _complete(values["not"], tree, at, f"{from_}.not", found)
    for name in ("allOf", "anyOf", "oneOf"):
        for index, sub in enumerate(values.get(name) or ()):
            _complete(sub, tree, at, f"{from_}.{name}[{index}]", found)


def _complete(values: Tree, tree: Tree | None, at: str, from_: str, found: list[FieldError]) -> None:
    if tree is None:
        found.append(field.required(at, f"because it is defined in {from_}"))
        return
    _complete_junctors(values, tree, at, from_, found)
    if values.get("items") is not None:
        _complete(values["items"], tree.get("items"), f"{at}.items", f"{from_}.items", found)
    declared = tree.get("properties") or {}
    for name, sub in (values.get("properties") or {}).items():
        below = f"properties[{name}]"
        _complete(sub, declared.get(name), f"{at}.{below}", f"{from_}.{below}", found)
