"""Whether the schema of a version may stand in a definition.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubevouch.machinery import field
from kubevouch.machinery.field import ErrorType, FieldError
from kubevouch.structural import go_form
from kubevouch.structural.default_checks import UNKNOWN_FIELDS, check_defaults
from kubevouch.structural.pruning import IDENTITY
from kubevouch.structural.rule_checks import check_rules
from kubevouch.structural.schema import compile_schema
from kubevouch.structural.structure_checks import check_structure, unsupported

Tree = Mapping[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_ALLOWED_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items",
    "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_PRESERVE, _EMBEDDED, _LIST, _KEYS, _MAP = (
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip


def check_schema(
    tree: Tree, path: str, *, status_enabled: bool, old: Tree | None = None, stored: Iterable[Tree] = ()
) -> list[FieldError]:
    """What is wrong with the schema of a version.

    Args:
        tree: with the types of JSONSchemaProps, and nothing in it that is empty.
        path: where it stands in the definition.
        status_enabled: the version has a ``status`` subresource.
        old: the schema that is stored for this version, if one is.
        stored: those of the other versions. What one of them violates already is not asked of this one.
    """
    errors = _check_root(tree, path, status_enabled=status_enabled)
    schema = compile_schema(tree)
    why = unsupported(tree)
    is_sound = False
    if not why:
        found = check_structure(tree, path) or check_defaults(schema, path)
        is_sound = not found
        errors += found
    openapi = _OpenAPI()
    openapi.check(tree, path, _Inside(), is_root=True)
    errors += openapi.errors
    errors = _without_stored(errors, [*stored, *(() if old is None else (old,))])
    if why and not errors:
        # What it overlaps with says more.
        return [field.invalid(path, "", why)]
    old_schema = None if old is None else compile_schema(old)
    return errors + check_rules(schema, path, old_schema, errors=openapi.errors, is_structural=is_sound)


def _check_root(tree: Tree, path: str, *, status_enabled: bool) -> list[FieldError]:
    errors = []
    for name, (go_name, _) in go_form.FIELDS.items() if status_enabled else ():
        if name not in tree:
            continue
        if name == "type" and tree["type"] != "object":
            why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            errors.append(field.invalid(f"{path}.type", tree["type"], why))
            break
        if go_name not in _ALLOWED_AT_ROOT:
            why = (
                f"only [{' '.join(_ALLOWED_AT_ROOT)}] fields are allowed at the root of the schema "
                "if the status subresource is enabled"
            )
            errors.append(field.invalid(path, go_form.go_schema(tree), why))
            break
    if tree.get("nullable"):
        errors.append(field.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return errors


# ------------------------------------------------------------------ what is stored may stay

_SET_ITEMS: Final = f"must be atomic as item of a list with {_LIST}=set"
_NULLABLE_ITEMS: Final = f"cannot be nullable when {_LIST} is "
_KEY: Final = f"this property is in {_KEYS}, so it "


def _rule_of(error: FieldError) -> str:
    """Which of the rules that came later than the first definitions an error is about; empty for others."""
    if error.type is ErrorType.NOT_SUPPORTED and error.path.endswith(".type"):
        return "types"
    if error.detail in (UNKNOWN_FIELDS, _SET_ITEMS):
        return error.detail
    return "keys" if error.detail.startswith((_NULLABLE_ITEMS, _KEY)) else ""


def _without_stored(errors: list[FieldError], stored: list[Tree]) -> list[FieldError]:
    if not stored or not any(map(_rule_of, errors)):
        return errors
    kept: set[str] = set()
    for tree in stored:
        openapi = _OpenAPI()
        openapi.check(tree, "", _Inside(), is_root=True)
        kept.update(map(_rule_of, openapi.errors))
        if not unsupported(tree) and not check_structure(tree, ""):
            kept.update(map(_rule_of, check_defaults(compile_schema(tree), "")))
    kept.discard("")
    return [error for error in errors if _rule_of(error) not in kept]


# ------------------------------------------------------------------ the OpenAPI level


class _Inside(msgspec.Struct, frozen=True):
    """What surrounds a node: the metadata of a whole object; what forbids defaults."""

    meta: bool = False
    no_defaults: str = ""


@dataclass
class _OpenAPI:
    errors: list[FieldError] = attribute(default_factory=list)

    def _forbid(self, path: str, why: str) -> None:
        self.errors.append(field.forbidden(path, why))

    def check(self, tree: Tree, path: str, inside: _Inside, *, is_root: bool = False) -> None:
        self._check_node(tree, path, inside)
        additional, properties = tree.get("additionalProperties"), tree.get("properties") or {}
        if additional is not None:
            if properties and additional is not True:
                why = "additionalProperties and properties are mutual exclusive"
                self._forbid(f"{path}.additionalProperties", why)
            if isinstance(additional, Mapping):
                below = inside
                if inside.meta:
                    below = replace(inside, no_defaults="inside additionalProperties applying to object metadata")
                self.check(additional, f"{path}.additionalProperties", below)
        for name, sub in properties.items():
            below = inside
            if (is_root or tree.get(_EMBEDDED)) and name in IDENTITY:
                below = _Inside(meta=True, no_defaults=f"in top-level {name}" if is_root else inside.no_defaults)
            self.check(sub, f"{path}.properties[{name}]", below)
        if tree.get("not") is not None:
            self.check(tree["not"], f"{path}.not", inside)
        for name in ("allOf", "oneOf", "anyOf"):
            for index, sub in enumerate(tree.get(name) or ()):
                self.check(sub, f"{path}.{name}[{index}]", inside)
        for name, sub in (tree.get("definitions") or {}).items():
            self.check(sub, f"{path}.definitions[{name}]", inside)
        items = tree.get("items")
        if isinstance(items, Mapping):
            self.check(items, f"{path}.items", inside)
        for index, sub in enumerate(items if isinstance(items, list) else ()):
            self.check(sub, f"{path}.items[{index}]", inside)
        for name, sub in (tree.get("dependencies") or {}).items():
            if isinstance(sub, Mapping):
                self.check(sub, f"{path}.dependencies[{name}]", inside)
        if tree.get(_PRESERVE) is False:
            self.errors.append(field.invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined"))
        if _MAP in tree:
            self._check_map_type(tree, path)
        if _LIST in tree or tree.get(_KEYS):
            self._check_list_type(tree, path)

    def _check_node(self, tree: Tree, path: str, inside: _Inside) -> None:
        kind = tree.get("type") or ""
        if kind and kind not in _TYPES:
            self.errors.append(field.not_supported(f"{path}.type", kind, _TYPES))
        if inside.no_defaults and tree.get("default") is not None:
            self._forbid(f"{path}.default", f"must not be set {inside.no_defaults}")
        for name in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
            if tree.get(name) or (name in ("additionalItems", "$ref") and tree.get(name) is not None):
                self._forbid(f"{path}.{name}", f"{name} is not supported")
        if kind == "null":
            self._forbid(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
        if tree.get("items") and isinstance(tree["items"], list):
            self._forbid(f"{path}.items", "items must be a schema object and not an array")
        if inside.meta and tree.get(_EMBEDDED):
            self._forbid(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")
        if tree.get("uniqueItems"):
            why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            self._forbid(f"{path}.uniqueItems", why)

    def _check_type(self, tree: Tree, path: str, wanted: str, name: str) -> bool:
        kind, why = tree.get("type") or "", f"must be {wanted} if {name} is specified"
        if kind == wanted:
            return True
        at = f"{path}.type"
        self.errors.append(field.invalid(at, kind, why) if kind else field.required(at, why))
        return False

    def _check_map_type(self, tree: Tree, path: str) -> None:
        self._check_type(tree, path, "object", _MAP)
        if tree[_MAP] not in ("atomic", "granular"):
            self.errors.append(field.not_supported(f"{path}.{_MAP}", tree[_MAP], ("atomic", "granular")))

    def _check_list_type(self, tree: Tree, path: str) -> None:
        list_type, keys = tree.get(_LIST), tree.get(_KEYS) or []
        items = tree.get("items")
        if list_type is not None:
            if self._check_type(tree, path, "array", _LIST) and list_type == "set" and isinstance(items, Mapping):
                self._check_set_items(items, f"{path}.items")
            if list_type not in ("atomic", "set", "map"):
                self.errors.append(field.not_supported(f"{path}.{_LIST}", list_type, ("atomic", "set", "map")))
        if keys and list_type != "map":
            at, why = f"{path}.{_LIST}", f"must be map if {_KEYS} is non-empty"
            self.errors.append(field.required(at, why) if list_type is None else field.invalid(at, list_type, why))
        if list_type == "map":
            self._check_map_items(items, keys, path)
        if list_type in ("set", "map") and isinstance(items, Mapping):
            self._check_nulls(items, keys if list_type == "map" else [], f"{path}.items", list_type)

    def _check_set_items(self, items: Tree, path: str) -> None:
        if items.get("type") == "array" and items.get(_LIST, "atomic") != "atomic":
            self.errors.append(field.invalid(f"{path}.{_LIST}", items[_LIST], _SET_ITEMS))
        elif items.get("type") == "object" and items.get(_MAP) != "atomic":
            # Kubernetes prints the list type here.
            self.errors.append(field.invalid(f"{path}.{_MAP}", items.get(_LIST), _SET_ITEMS))

    def _check_map_items(self, items: Any, keys: list[str], path: str) -> None:
        where = f"{path}.{_KEYS}"
        if not keys:
            self.errors.append(field.required(where, f"must not be empty if {_LIST} is map"))
        if items is None:
            self.errors.append(field.required(f"{path}.items", f"must have a schema if {_LIST} is map"))
        elif not isinstance(items, Mapping):
            why = f"must only have a single schema if {_LIST} is map"
            self.errors.append(field.invalid(f"{path}.items", go_form.go_items(items), why))
        elif items.get("type") != "object":
            why = f"must be object if parent array's {_LIST} is map"
            self.errors.append(field.invalid(f"{path}.items.type", items.get("type") or "", why))
        else:
            properties = items.get("properties") or {}
            for index, key in enumerate(keys):
                if key not in properties:
                    self.errors.append(field.invalid(where, keys, "entries must all be names of item properties"))
                elif properties[key].get("type") in ("array", "object"):
                    # The type that is printed is that of the items.
                    at, why = f"{path}.items.properties[{key}].type", "must be a scalar type if parent array's "
                    self.errors.append(field.invalid(at, items["type"], f"{why}{_LIST} is map"))
                if key in keys[:index]:
                    self.errors.append(field.invalid(where, keys, "must not contain duplicate entries"))

    def _check_nulls(self, items: Tree, keys: list[str], path: str, list_type: str) -> None:
        if items.get("nullable"):
            self._forbid(f"{path}.nullable", f"{_NULLABLE_ITEMS}{list_type}")
        properties, needed = items.get("properties") or {}, items.get("required") or ()
        for key in keys:
            declared, at = properties.get(key), f"{path}.properties[{key}]"
            if declared is None:
                continue
            if key not in needed and declared.get("default") is None:
                why = f"{_KEY}must have a default or be a required property"
                self.errors.append(field.required(f"{at}.default", why))
            if declared.get("nullable"):
                self._forbid(f"{at}.nullable", f"{_KEY}cannot be nullable")
