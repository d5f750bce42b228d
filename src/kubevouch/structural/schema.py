"""A structural schema, compiled from the ``openAPIV3Schema`` of a version.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go and convert.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

# Every walk over a schema is recursive. Those of real projects have some 25 levels; without a bound one definition
# would be a way to the interpreter's own limit.
MAX_DEPTH = 100


class TooDeep(ValueError):
    """A schema has more than ``MAX_DEPTH`` levels."""

    def __init__(self) -> None:
        super().__init__(f"schema nests more than {MAX_DEPTH} levels deep")


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


class Rule(msgspec.Struct, frozen=True):
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One node.

    Args:
        tree: the node as the definition has it; what is not compiled here is read from it.
        additional: the schema of undeclared keys; True for any value, None where there are none.
        default: NO_DEFAULT where none is declared; a declared null counts as none.
        default_json: its text, from which copies are made.
        fills: this node or one below it has a default.
        has_embedded: so for embedded objects.
        has_unique: so for lists in which nothing may be twice.
        has_rules: so for rules.
        any_of: with ``all_of``, ``one_of`` and ``negated`` the junctors, which only validate values.
    """

    tree: Mapping[str, Any] = field(repr=False)
    type: str
    properties: dict[str, Schema]
    additional: Schema | bool | None
    items: Schema | None
    nullable: bool
    default: Any
    default_json: bytes
    preserve_unknown: bool
    embedded: bool
    int_or_string: bool
    list_type: str
    map_keys: tuple[str, ...]
    map_type: str
    rules: tuple[Rule, ...]
    all_of: tuple[Schema, ...]
    any_of: tuple[Schema, ...]
    one_of: tuple[Schema, ...]
    negated: Schema | None
    fills: bool
    has_embedded: bool
    has_unique: bool
    has_rules: bool

    @property
    def values(self) -> Schema | None:
        """The schema of undeclared keys, where there is one."""
        return self.additional if isinstance(self.additional, Schema) else None


def compile_schema(tree: Mapping[str, Any]) -> Schema:
    """The schema of a tree whose keys have the types of JSONSchemaProps.

    Raises:
        TooDeep: it nests deeper than ``MAX_DEPTH``.
    """
    return _compile(tree, 0)


_NO_PROPERTIES: dict[str, Schema] = {}


def _compile(tree: Mapping[str, Any], depth: int) -> Schema:
    if depth > MAX_DEPTH:
        raise TooDeep
    below = depth + 1
    declared_properties = tree.get("properties")
    # Most nodes are leaves, and have one empty dict together.
    properties = _NO_PROPERTIES
    if declared_properties:
        properties = {name: _compile(sub, below) for name, sub in declared_properties.items()}
    additional: Schema | bool | None = None
    declared = tree.get("additionalProperties")
    if isinstance(declared, Mapping):
        additional = _compile(declared, below)
    elif declared is not None:
        additional = bool(declared)
    items = tree.get("items")
    compiled_items = _compile(items, below) if isinstance(items, Mapping) else None
    default = tree.get("default")
    children = [child for child in (*properties.values(), additional, compiled_items) if isinstance(child, Schema)]
    embedded = bool(tree.get("x-kubernetes-embedded-resource"))
    list_type = tree.get("x-kubernetes-list-type") or ""
    negated = tree.get("not")
    return Schema(
        tree=tree,
        type=tree.get("type") or "",
        properties=properties,
        additional=additional,
        items=compiled_items,
        nullable=bool(tree.get("nullable")),
        default=NO_DEFAULT if default is None else default,
        default_json=b"" if default is None else msgspec.json.encode(default),
        preserve_unknown=bool(tree.get("x-kubernetes-preserve-unknown-fields")),
        embedded=embedded,
        int_or_string=bool(tree.get("x-kubernetes-int-or-string")),
        list_type=list_type,
        map_keys=tuple(tree.get("x-kubernetes-list-map-keys") or ()),
        map_type=tree.get("x-kubernetes-map-type") or "",
        rules=tuple(_rule(rule) for rule in tree.get("x-kubernetes-validations") or ()),
        all_of=_junctor(tree, "allOf", below),
        any_of=_junctor(tree, "anyOf", below),
        one_of=_junctor(tree, "oneOf", below),
        negated=_compile(negated, below) if isinstance(negated, Mapping) else None,
        fills=default is not None or any(child.fills for child in children),
        has_embedded=embedded or any(child.has_embedded for child in children),
        has_unique=list_type in ("set", "map") or any(child.has_unique for child in children),
        has_rules=bool(tree.get("x-kubernetes-validations")) or any(child.has_rules for child in children),
    )


def _junctor(tree: Mapping[str, Any], name: str, depth: int) -> tuple[Schema, ...]:
    return tuple(_compile(sub, depth) for sub in tree.get(name) or ())


def _rule(tree: Mapping[str, Any]) -> Rule:
    return Rule(
        rule=tree.get("rule") or "",
        message=tree.get("message") or "",
        message_expression=tree.get("messageExpression") or "",
        reason=tree.get("reason") or "",
        field_path=tree.get("fieldPath") or "",
        optional_old_self=tree.get("optionalOldSelf"),
    )
