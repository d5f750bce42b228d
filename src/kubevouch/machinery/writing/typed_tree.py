"""JSON trees with a type: validated, merged, compared and pruned as server-side apply does.

A tree is what ``json_codec.to_builtins`` gives; its type comes from the declarations. Arguments are never changed. The
compare of whole structs, which runs on every write, is in ``struct_compare.py``.

Sources: sigs.k8s.io/structured-merge-diff/v6 typed (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from kubevouch.machinery.schema import FieldSchema, ListSchema, MapSchema, StructSchema, TypeSchema
from kubevouch.machinery.text import gotext
from kubevouch.machinery.writing import field_set
from kubevouch.machinery.writing.field_set import FieldSet, element_text, field_element


class ScalarType(msgspec.Struct, frozen=True):
    """A leaf; ``any`` is a document inside the document, ``untyped`` no list or map."""

    kind: Literal["string", "numeric", "boolean", "untyped", "any"]


class MapType(msgspec.Struct, frozen=True, eq=False):
    """A struct has ``fields``, a map an ``element``; an atomic one is owned as a whole."""

    fields: dict[str, MergeType]
    element: MergeType | None
    atomic: bool = False

    def below(self, key: str) -> MergeType | None:
        return self.fields.get(key, self.element)


class ListType(msgspec.Struct, frozen=True, eq=False):
    """``keys`` of a list whose items have them, with the ``defaults`` of some; empty for a set."""

    item: MergeType
    keys: tuple[str, ...] = ()
    atomic: bool = True
    defaults: Mapping[str, Any] = msgspec.field(default_factory=dict)


class DeducedType(msgspec.Struct, frozen=True):
    """Of what nobody declared: a map is merged key by key, a list is owned as a whole."""


DEDUCED = DeducedType()
MergeType = ScalarType | MapType | ListType | DeducedType

_SCALARS: dict[str, ScalarType] = {
    "string": ScalarType("string"), "bytes": ScalarType("string"), "bool": ScalarType("boolean"),
    "int32": ScalarType("numeric"), "int64": ScalarType("numeric"), "json": ScalarType("any"),
    "opaque": ScalarType("any"),
}  # fmt: skip
_UNTYPED = ScalarType("untyped")
_DEDUCED_MAP = MapType({}, DEDUCED)
_DEDUCED_LIST = ListType(DEDUCED)


def _settled(kind: MergeType, *values: Any) -> ScalarType | MapType | ListType:
    """``kind``, or what ``values`` are, where nobody declared it: of different sorts they are scalars."""
    if not isinstance(kind, DeducedType):
        return kind
    sorts = {dict if isinstance(value, dict) else list if isinstance(value, list) else None for value in values}
    if sorts == {dict}:
        return _DEDUCED_MAP
    return _DEDUCED_LIST if sorts == {list} else _UNTYPED


@cache
def merge_type(schema: StructSchema) -> MapType:
    return MapType({item.name: field_type(item) for item in schema.fields}, None, atomic=schema.atomic)


def field_type(item: FieldSchema) -> MergeType:
    kind = item.type
    if isinstance(kind, ListSchema) and item.list_type in ("set", "map"):
        return ListType(_plain_type(kind.item), item.map_keys, atomic=False)
    plain = _plain_type(kind)
    if item.atomic and isinstance(plain, MapType):
        return MapType(plain.fields, plain.element, atomic=True)
    return plain


def _plain_type(schema: TypeSchema) -> MergeType:
    """The type of what no field describes: lists are atomic, maps are not."""
    if isinstance(schema, StructSchema):
        return merge_type(schema)
    if isinstance(schema, ListSchema):
        return ListType(_plain_type(schema.item))
    if isinstance(schema, MapSchema):
        return MapType({}, _plain_type(schema.value))
    # What reads its own form has no fields here: it is owned as a whole by the atomic list that it stands in.
    return DEDUCED if schema.kind == "opaque" else _SCALARS.get(schema.kind, _UNTYPED)


# ------------------------------------------------------------------ validation

Problem = tuple[str, str]


def validate(value: Any, kind: MergeType) -> list[Problem]:
    """Where ``value`` does not conform: paths and Kubernetes' words."""
    if value is None:
        return []
    kind = _settled(kind, value)
    if isinstance(kind, ScalarType):
        complaint = _scalar_complaint(value, kind)
        return [("", complaint)] if complaint else []
    if isinstance(kind, MapType):
        if not isinstance(value, dict):
            return [("", f"expected map, got &{{{gotext.go_value(value)}}}")]
        return list(_validate_map(value, kind))
    if not isinstance(value, list):
        return [("", f"expected list, got &{{{gotext.go_value(value)}}}")]
    return list(_validate_list(value, kind))


def problems_text(problems: list[Problem]) -> str:
    """How Kubernetes lists them."""
    texts = [f"{path}: {text}" if path else text for path, text in problems]
    return texts[0] if len(texts) == 1 else "\n  ".join(["errors:", *texts])


def _scalar_complaint(value: Any, kind: ScalarType) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    printed = f"&{{{gotext.go_value(value)}}}"
    if kind.kind == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{gotext.go_syntax(value)}}}"
    if kind.kind == "numeric" and not is_number:
        return f"expected numeric (int or float), got {gotext.go_type(value)}"
    if kind.kind == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got {printed}"
    return f"expected any scalar, got {printed}" if kind.kind != "any" and isinstance(value, (dict, list)) else ""


def _validate_map(value: dict[str, Any], kind: MapType) -> Iterator[Problem]:
    for key, item in value.items():
        below = kind.below(key)
        if below is None:
            yield f".{key}", "field not declared in schema"
            return
        yield from ((f".{key}{path}", text) for path, text in validate(item, below))


def _validate_list(value: list[Any], kind: ListType) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        at = f"[{index}]"
        if not kind.atomic:
            complaint = _element_complaint(item, kind)
            if complaint:
                yield "", f"element {index}: {complaint}"
                return
            element = element_of(item, kind)
            at = element_text(element)
            if element in seen:
                yield "", f"duplicate entries for key {at}"
            seen.add(element)
        yield from ((f"{at}{path}", text) for path, text in validate(item, kind.item))


def _element_complaint(item: Any, kind: ListType) -> str:
    if not kind.keys:
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if any(key in item or key in kind.defaults for key in kind.keys):
        return ""
    names = " ".join(gotext.quote(key) for key in kind.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{names}] (and doesn't have default "
        "values for any key fields)"
    )


def element_of(item: Any, kind: ListType) -> str:
    """The path element of an item of a list that is not atomic."""
    if kind.keys and isinstance(item, dict):
        known = {**kind.defaults, **item} if kind.defaults else item
        present = tuple(key for key in kind.keys if key in known)
        return field_set.key_element(present, tuple(known[key] for key in present))
    return field_set.value_element(item)


# ------------------------------------------------------------------ sets


def to_set(value: Any, kind: MergeType) -> FieldSet:
    """Every leaf, item and map entry of ``value``."""
    node = _node(value, kind)
    return node or {}


def _node(value: Any, kind: MergeType) -> FieldSet | None:
    """The tree below a value; ``{}`` for a leaf, None for nothing at all."""
    kind = _settled(kind, value)
    if isinstance(kind, ScalarType) or kind.atomic:
        return {}
    if not value:
        return None
    if isinstance(kind, ListType):
        return _list_node(value, kind)
    result = {}
    for key, item in value.items():
        below = kind.below(key)
        node = None if below is None else _node(item, below)
        # A map's entries are members besides what is below them, a struct's fields only when nothing is.
        if key not in kind.fields or item is None or item == {}:
            node = _as_member(node)
        if node is not None:
            result[field_element(key)] = node
    return result


def _as_member(node: FieldSet | None) -> FieldSet:
    return {field_set.SELF: {}, **node} if node else {}


def _list_node(value: list[Any], kind: ListType) -> FieldSet:
    result: FieldSet = {}
    repeated = set()
    for item in value:
        element = element_of(item, kind)
        if element in result:
            repeated.add(element)
        result[element] = _as_member(_node(item, kind.item))
    for element in repeated:
        result[element] = {}
    return result


def with_named_fields(fields: FieldSet, kind: MergeType | None) -> FieldSet:
    """``fields`` with each declared field that has members below it as a member, too."""
    result: FieldSet = {}
    for element, below in fields.items():
        if not below:
            result[element] = below
            continue
        inner: MergeType | None = None
        named = False
        if isinstance(kind, MapType) and element.startswith("f:"):
            inner, named = kind.below(element[2:]), element[2:] in kind.fields
        elif isinstance(kind, ListType) and element.startswith("k:"):
            inner = kind.item
        node = with_named_fields(below, inner)
        result[element] = {field_set.SELF: {}, **node} if named and field_set.SELF not in node else node
    return result


# ------------------------------------------------------------------ merge

_ABSENT: Any = object()


def merge(live: Any, applied: Any, kind: MergeType) -> Any:
    """``live`` with everything that ``applied`` says; nothing goes away."""
    merged = _merge(live, applied, kind)
    return {} if merged is _ABSENT else merged


def _merge(live: Any, applied: Any, kind: MergeType) -> Any:
    both_empty = not _filled(live) and not _filled(applied)
    kind = _settled(kind, *(value for value in (live, applied) if value is not _ABSENT))
    if isinstance(kind, ScalarType) or kind.atomic or both_empty:
        return live if applied is _ABSENT else applied
    if isinstance(kind, ListType):
        return _merge_lists(_as_list(live), _as_list(applied), kind) or _ABSENT
    left, right = _as_map(live), _as_map(applied)
    result = {}
    for key in [*left, *(key for key in right if key not in left)]:
        below = kind.below(key) or _UNTYPED
        merged = _merge(left.get(key, _ABSENT), right.get(key, _ABSENT), below)
        if merged is not _ABSENT:
            result[key] = merged
    return result or _ABSENT


def _filled(value: Any) -> bool:
    return value is not _ABSENT and bool(value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _merge_lists(left: list[Any], right: list[Any], kind: ListType) -> list[Any]:
    """The items of both: in the order of ``right`` where it says something, of ``left`` elsewhere."""
    left_elements = [element_of(item, kind) for item in left]
    right_elements = [element_of(item, kind) for item in right]
    given = dict(zip(right_elements, right, strict=True))
    known: dict[str, Any] = {}
    for element, item in zip(left_elements, left, strict=True):
        # What occurs twice is not merged into; the applied item stands for all of them.
        known[element] = None if element in known else item
    shared = [element for element in right_elements if element in known]
    result: list[Any] = []
    done: set[str] = set()
    i = j = next_shared = 0

    def take(element: str) -> None:
        done.add(element)
        result.append(_merge(known.get(element, _ABSENT), given[element], kind.item))

    while i < len(left) or j < len(right):
        expected = shared[next_shared] if next_shared < len(shared) else None
        if i < len(left):
            element = left_elements[i]
            if j < len(right):
                if element == right_elements[j]:
                    take(element)
                    i, j, next_shared = i + 1, j + 1, next_shared + 1
                    continue
                if element in given and expected is not None and element != expected:
                    i += 1
                    continue
            if element not in given:
                result.append(left[i])
                i += 1
                continue
            if element in done:
                i += 1
        if j < len(right):
            take(right_elements[j])
            next_shared += right_elements[j] == expected
            j += 1
    return result


# ------------------------------------------------------------------ removal


def remove(value: Any, gone: FieldSet, kind: MergeType) -> Any:
    """``value`` without the fields and items that are members of ``gone``; None when nothing stays."""
    kind = _settled(kind, value)
    if isinstance(kind, ScalarType):
        return value
    if not value or kind.atomic:
        return None
    if isinstance(kind, ListType):
        return _remaining(((element_of(item, kind), item) for item in value), gone, kind) or None
    result = {}
    for key, item in value.items():
        node = gone.get(field_element(key))
        if node is None:
            result[key] = item
        elif node and field_set.SELF not in node:
            result[key] = remove(item, node, kind.below(key) or _UNTYPED)
    return result or None


def _remaining(items: Iterator[tuple[str, Any]], gone: FieldSet, kind: ListType) -> list[Any]:
    result = []
    for element, item in items:
        node = gone.get(element)
        if node is None:
            result.append(item)
        elif node and field_set.SELF not in node:
            result.append(remove(item, node, kind.item))
    return result


# ------------------------------------------------------------------ compare


class Comparison(msgspec.Struct):
    """What is new or other (``changed``), and what is no longer there (``removed``)."""

    changed: FieldSet
    removed: FieldSet


def compare(old: Any, new: Any, kind: MergeType) -> Comparison:
    """The difference of two trees of one type."""
    changed, removed = _compare(old, new, kind)
    return Comparison(changed or {}, removed or {})


_Nodes = tuple[FieldSet | None, FieldSet | None]
_NOTHING: _Nodes = (None, None)


def _compare(old: Any, new: Any, kind: MergeType) -> _Nodes:
    both_empty = not _filled(old) and not _filled(new)
    kind = _settled(kind, *(value for value in (old, new) if value is not _ABSENT))
    if isinstance(kind, ScalarType) or kind.atomic or both_empty:
        if new is _ABSENT:
            return None, {}
        return ({}, None) if old is _ABSENT or not _same(old, new) else _NOTHING
    changed: FieldSet = {}
    removed: FieldSet = {}
    pairs = _list_pairs(old, new, kind) if isinstance(kind, ListType) else _map_pairs(old, new, kind)
    for element, (more, less) in pairs:
        if more is not None:
            changed[element] = more
        if less is not None:
            removed[element] = less
    # A part that comes or goes as a whole is a member itself.
    if old is _ABSENT:
        return _as_member(changed), removed or None
    if new is _ABSENT:
        return changed or None, _as_member(removed)
    return changed or None, removed or None


def _same(old: Any, new: Any) -> bool:
    # Python takes True for 1, Go does not.
    return bool(old == new) and isinstance(old, bool) is isinstance(new, bool)


def _map_pairs(old: Any, new: Any, kind: MapType) -> Iterator[tuple[str, _Nodes]]:
    left, right = _as_map(old), _as_map(new)
    for key in [*left, *(key for key in right if key not in left)]:
        below = kind.below(key) or _UNTYPED
        yield field_element(key), _compare(left.get(key, _ABSENT), right.get(key, _ABSENT), below)


def _list_pairs(old: Any, new: Any, kind: ListType) -> Iterator[tuple[str, _Nodes]]:
    left, right = grouped(_as_list(old), kind), grouped(_as_list(new), kind)
    compare_items = _item_compare(kind)
    for element in [*left, *(element for element in right if element not in left)]:
        yield element, compare_groups(left.get(element, []), right.get(element, []), compare_items)


def _item_compare(kind: ListType) -> Callable[[Any, Any], _Nodes]:
    def compare_items(old: Any, new: Any) -> _Nodes:
        return _compare(_ABSENT if old is None else old, _ABSENT if new is None else new, kind.item)

    return compare_items


def grouped(items: list[Any], kind: ListType) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element_of(item, kind), []).append(item)
    return groups


def compare_groups(left: list[Any], right: list[Any], compare_items: Callable[[Any, Any], _Nodes]) -> _Nodes:
    """The items of one element: normally at most one a side; those that occur twice are taken as a whole.

    ``compare_items`` gets None for the item that one side does not have; no item of such a list is null.
    """
    if len(left) < 2 and len(right) < 2:
        return compare_items(left[0] if left else None, right[0] if right else None)
    if len(left) > 1 and len(right) > 1:
        return _NOTHING if left == right else ({}, None)
    if len(left) > 1:
        return (compare_items(None, right[0])[0] if right else None), {}
    return {}, (compare_items(left[0], None)[1] if left else None)
