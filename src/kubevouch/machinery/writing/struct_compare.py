"""What changed between two structs, as sets of field paths: ``typed_tree.compare`` without the trees.

Every write runs through here, so a struct gets its comparer once, and whatever both objects share (``is``) is skipped.
Presence is that of JSON: a field without ``always`` is absent while it holds its zero value. Metadata that nobody can
own is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.schema import FieldSchema, ListSchema, MapSchema, ScalarSchema, StructSchema, schema_of
from kubevouch.machinery.writing import field_set
from kubevouch.machinery.writing.field_set import SELF, FieldSet, field_element
from kubevouch.machinery.writing.typed_tree import compare_groups

# What came or changed, and what went; None for nothing, {} for the element itself.
Nodes = tuple[FieldSet | None, FieldSet | None]
_NOTHING: Nodes = (None, None)
_CHANGED: Nodes = ({}, None)
_REMOVED: Nodes = (None, {})

# Compares two values that differ and are both present.
Compare = Callable[[Any, Any], Nodes]
# The tree below a value that comes or goes as a whole; {} for a leaf.
Whole = Callable[[Any], FieldSet]


# k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go. generateName and the deletion's fields are not among
# them.
NEVER_OWNED = frozenset(
    {"name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"}
)


def compare(old: msgspec.Struct, new: msgspec.Struct) -> tuple[FieldSet, FieldSet]:
    """What ``new`` has that is other or new, and what only ``old`` has. Both are of one declared type."""
    changed, removed = _struct_compare(schema_of(type(new)), old, new)
    return changed or {}, removed or {}


@cache
def _plan(schema: StructSchema) -> tuple[tuple[str, str, bool, bool, Compare, Whole], ...]:
    """For each field: attribute, element, is it always present, is None its absence, and its functions."""
    return tuple(
        (item.attribute, field_element(item.name), item.always, item.pointer and not item.always, *_functions(item))
        for item in schema.fields
        if schema.type is not ObjectMeta or item.name not in NEVER_OWNED
    )


def _struct_compare(schema: StructSchema, old: Any, new: Any) -> Nodes:
    changed: FieldSet | None = None
    removed: FieldSet | None = None
    for attribute, element, always, pointer, differ, whole in _plan(schema):
        before, after = getattr(old, attribute), getattr(new, attribute)
        if before is after or before == after:
            continue
        if not always:
            if after is None if pointer else not after:
                removed = removed if removed is not None else {}
                removed[element] = _member(whole(before))
                continue
            if before is None if pointer else not before:
                changed = changed if changed is not None else {}
                changed[element] = _member(whole(after))
                continue
        more, less = differ(before, after)
        if more is not None:
            changed = changed if changed is not None else {}
            changed[element] = more
        if less is not None:
            removed = removed if removed is not None else {}
            removed[element] = less
    return changed, removed


def _struct_whole(schema: StructSchema, value: Any) -> FieldSet:
    result: FieldSet = {}
    for attribute, element, always, pointer, _, whole in _plan(schema):
        item = getattr(value, attribute)
        if always or (item is not None if pointer else item):
            result[element] = _member(whole(item)) if item is not None else {}
    return result


def _member(node: FieldSet) -> FieldSet:
    return {SELF: {}, **node} if node else node


def _leaf_compare(_old: Any, _new: Any) -> Nodes:
    return _CHANGED


def _leaf_whole(_value: Any) -> FieldSet:
    return {}


def _functions(item: FieldSchema) -> tuple[Compare, Whole]:
    kind = item.type
    granular = isinstance(kind, ListSchema) and item.list_type in ("set", "map")
    if item.atomic or isinstance(kind, ScalarSchema) or (isinstance(kind, ListSchema) and not granular):
        return _leaf_compare, _leaf_whole
    if isinstance(kind, StructSchema):
        return _struct_functions(kind)
    if isinstance(kind, MapSchema):
        return _map_functions(kind)
    return _set_functions() if item.list_type == "set" else _keyed_functions(kind.item, item)


def _struct_functions(schema: StructSchema) -> tuple[Compare, Whole]:
    if schema.atomic:
        return _leaf_compare, _leaf_whole

    def differ(old: Any, new: Any) -> Nodes:
        # None stands for a null that is written: present, but without fields.
        if old is None:
            return _struct_whole(schema, new), None
        if new is None:
            gone = _struct_whole(schema, old)
            return (None, gone) if gone else _CHANGED
        return _struct_compare(schema, old, new)

    return differ, lambda value: _struct_whole(schema, value)


def _map_functions(schema: MapSchema) -> tuple[Compare, Whole]:
    inner: Compare = _leaf_compare
    whole: Whole = _leaf_whole
    if isinstance(schema.value, StructSchema):
        inner, whole = _struct_functions(schema.value)

    def map_compare(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Nodes:
        left, right = old or {}, new or {}
        changed: FieldSet = {}
        removed: FieldSet = {}
        if not left and not right:
            return _CHANGED  # null and {} differ
        for key, value in right.items():
            if key not in left:
                changed[field_element(key)] = _member(whole(value))
                continue
            before = left[key]
            if before is not value and before != value:
                more, less = inner(before, value)
                if more is not None:
                    changed[field_element(key)] = more
                if less is not None:
                    removed[field_element(key)] = less
        for key, value in left.items():
            if key not in right:
                removed[field_element(key)] = _member(whole(value))
        return changed or None, removed or None

    def map_whole(value: dict[str, Any]) -> FieldSet:
        return {field_element(key): _member(whole(item)) for key, item in value.items()}

    return map_compare, map_whole


def _set_functions() -> tuple[Compare, Whole]:
    def element_of(item: Any) -> str:
        return field_set.value_element(item)

    return _list_functions(element_of, _leaf_compare, _leaf_whole)


def _keyed_functions(item_schema: Any, item: FieldSchema) -> tuple[Compare, Whole]:
    names = item.map_keys
    attributes = tuple(item_schema.by_name[name].attribute for name in names)
    differ, whole = _struct_functions(item_schema)
    if len(names) == 1:
        attribute = attributes[0]
        return _list_functions(lambda value: field_set.key_element(names, (getattr(value, attribute),)), differ, whole)

    def element_of(value: Any) -> str:
        return field_set.key_element(names, tuple(getattr(value, attribute) for attribute in attributes))

    return _list_functions(element_of, differ, whole)


def _list_functions(element_of: Callable[[Any], str], differ: Compare, whole: Whole) -> tuple[Compare, Whole]:
    def compare_items(old: Any, new: Any) -> Nodes:
        if old is None:
            return _member(whole(new)), None
        if new is None:
            return None, _member(whole(old))
        return _NOTHING if old is new or old == new else differ(old, new)

    def group(items: list[Any] | None) -> dict[str, list[Any]]:
        groups: dict[str, list[Any]] = {}
        for each in items or ():
            groups.setdefault(element_of(each), []).append(each)
        return groups

    def list_compare(old: list[Any] | None, new: list[Any] | None) -> Nodes:
        if not old and not new:
            return _CHANGED  # null and [] differ
        left, right = group(old), group(new)
        changed: FieldSet = {}
        removed: FieldSet = {}
        for element in [*left, *(element for element in right if element not in left)]:
            more, less = compare_groups(left.get(element, []), right.get(element, []), compare_items)
            if more is not None:
                changed[element] = more
            if less is not None:
                removed[element] = less
        return changed or None, removed or None

    def list_whole(value: list[Any]) -> FieldSet:
        groups = group(value)
        return {element: {} if len(items) > 1 else _member(whole(items[0])) for element, items in groups.items()}

    return list_compare, list_whole
