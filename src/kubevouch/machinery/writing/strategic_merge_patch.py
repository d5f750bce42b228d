"""Strategic merge patches: merge patches that know which lists have keys.

The declarations say so (``wire(patch_merge_key=…, patch_strategy="merge")``); a patch may carry directives: ``$patch``,
``$deleteFromPrimitiveList/<field>``, ``$setElementOrder/<field>`` and ``$retainKeys``. What is wrong with a patch is an
:class:`errors.APIStatusError` of the code that Kubernetes gives it, 500 for most.

Sources: k8s.io/apimachinery/pkg/util/strategicpatch, pkg/util/mergepatch, third_party/forked/golang/json (Kubernetes
1.36). Lookups by key go through dicts, so a patch costs time in proportion to it and to the lists it touches.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.schema import FieldSchema, ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema
from kubevouch.machinery.text import gotext
from kubevouch.machinery.writing.element_order import (
    Identity,
    Map,
    bad_type,
    element_kind,
    identity,
    in_order,
    key_of,
    partition,
)
from kubevouch.machinery.writing.json_patch import too_deep

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_SET_ORDER = "$setElementOrder"

_BAD_DELETE_LIST = "invalid patch format of primitive list"
_BAD_ORDER_LIST = "invalid patch format of setElementOrder list"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"


class StrategicMergePatch(msgspec.Struct, frozen=True):
    """The tree of a patch, and what strict reading has against its text."""

    tree: Map
    strict_errors: tuple[str, ...] = ()


def decode(data: bytes, *, strict: bool = True) -> StrategicMergePatch:
    """Reads the body of a patch.

    Args:
        strict: False with ``fieldValidation=Ignore``: repeated keys are not reported.

    Raises:
        APIStatusError: 400.
    """
    try:
        tree = gojson.loads(data)
    except gojson.JSONSyntaxError as err:
        raise errors.bad_request(str(err)) from err
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        kind = json_codec.go_kind(tree)
        raise errors.bad_request(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return StrategicMergePatch(tree, tuple(gojson.duplicate_fields(tree)) if strict else ())


def apply(document: Map, patch: StrategicMergePatch, schema: StructSchema) -> Map:
    """``document``, an object of ``schema`` as a JSON tree, merged with the patch; neither argument is changed.

    Raises:
        APIStatusError: 400, 422 or 500 without a reason, as Kubernetes answers.
    """
    try:
        return _merge_map(document, patch.tree, schema)
    except RecursionError as err:
        raise too_deep() from err


# ------------------------------------------------------------------ what the declarations say


class _Meta(msgspec.Struct, frozen=True):
    """How a field merges, and the type below it (of its items for lists)."""

    below: TypeSchema
    merge_key: str
    merges: bool


_GO_KINDS = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "bytes": "slice"}


def _go_kind(schema: TypeSchema) -> str:
    if isinstance(schema, ListSchema):
        return "slice"
    if isinstance(schema, MapSchema):
        return "map"
    return _GO_KINDS.get(schema.kind, "struct") if isinstance(schema, ScalarSchema) else "struct"


def _lookup(schema: TypeSchema, key: str) -> FieldSchema:
    if not isinstance(schema, StructSchema):
        raise errors.untyped(f"merging an object in json but data type is not struct, instead is: {_go_kind(schema)}")
    known = schema.by_name.get(key)
    if known is None:
        folded = key.casefold()
        known = next((item for item in schema.fields if item.name.casefold() == folded), None)
    if known is None:
        where = f"struct {schema.go_name} for the json field {gotext.quote(key)}"
        raise errors.untyped(f"unable to find api field in {where}")
    return known


def _list_meta(schema: TypeSchema, key: str) -> _Meta:
    known = _lookup(schema, key)
    if isinstance(known.type, ListSchema):
        merges = bool(known.patch_merge_key) or known.patch_strategy == "merge"
        return _Meta(known.type.item, known.patch_merge_key, merges)
    raise errors.untyped(f"expected slice or array type, but got: {_go_kind(schema)}")


# ------------------------------------------------------------------ maps


def _merge_map(original: Map, patch: Map, schema: TypeSchema) -> Map:
    if _PATCH in patch:
        return _directed_map(patch)
    result = dict(original)
    patch = dict(patch)
    _retain_keys(result, patch)
    _order_lists(result, patch, schema)
    for given_key, value in patch.items():
        deletes = given_key.startswith(_DELETE_FROM)
        key = _directive_target(given_key, _DELETE_FROM, _BAD_DELETE_LIST) if deletes else given_key
        if value is None:
            result.pop(key, None)
            continue
        current = result.get(key)
        if isinstance(value, dict) and isinstance(current, dict):
            result[key] = _merge_map(current, value, _lookup(schema, key).type)
        elif isinstance(value, list) and isinstance(current, list):
            result[key] = _merge_list(current, value, _list_meta(schema, key), deletes=deletes)
        elif not deletes:
            _take(result, key, value)
    return result


def _take(result: Map, key: str, value: Any) -> None:
    """The patch's value as it is, without nulls and directives."""
    kept, keep = _without_directives(_without_nulls(value))
    if keep:
        result[key] = kept
    else:
        result.pop(key, None)


def _directed_map(patch: Map) -> Map:
    directive = patch[_PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    raise _bad_patch_type(directive, patch)


def _bad_patch_type(directive: object, patch: Map) -> APIStatusError:
    printed = directive
    if not isinstance(directive, str):
        printed = f"%!s({gotext.go_type(directive)}={gotext.go_value(directive)})"
    return errors.untyped(f"unknown patch type: {printed} in map: {gotext.go_value(patch)}")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    """The value, and False if it is nothing but a directive. Only ``$patch`` counts; other directives stay as keys."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        items = ((key, _without_directives(item)) for key, item in value.items())
        return {key: item for key, (item, keep) in items if keep}, True
    if isinstance(value, list):
        return [item for item, keep in map(_without_directives, value) if keep], True
    return value, True


def _directive_target(key: str, prefix: str, complaint: str) -> str:
    head, slash, target = key.partition("/")
    if not slash or head != prefix:
        raise errors.bad_request(complaint)
    return target


def _retain_keys(result: Map, patch: Map) -> None:
    """Drops from ``result`` what ``$retainKeys`` does not name, and the directive from ``patch``."""
    if _RETAIN_KEYS not in patch:
        return
    names = patch.pop(_RETAIN_KEYS)
    if not isinstance(names, list):
        raise errors.bad_request(_BAD_RETAIN_KEYS)
    retained = {identity(name) for name in names}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _SET_ORDER)) and identity(key) not in retained:
            raise errors.bad_request(_BAD_RETAIN_KEYS)
    for key in [key for key in result if identity(key) not in retained]:
        del result[key]


def _order_lists(result: Map, patch: Map, schema: TypeSchema) -> None:
    """Merges the lists that a ``$setElementOrder`` goes with, and takes both from ``patch``."""
    for directive in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(directive)
        if not isinstance(order, list):
            raise bad_type("[]interface {}", order)
        key = _directive_target(directive, _SET_ORDER, _BAD_ORDER_LIST)
        for side in (result, patch):
            if key in side and not isinstance(side[key], list):
                raise bad_type("[]interface {}", side[key])
        meta = _list_meta(schema, key)
        current, given = result.get(key), patch.pop(key, None)
        _check_order(given or [], order, meta.merge_key)
        if current is None and given is None:
            continue
        if current is None:
            merged = _without_directives(given)[0]
        else:
            merged = current if given is None else _merge_list(current, given, meta, deletes=False)
        named, others = partition(merged, order, meta.merge_key)
        keyed = element_kind(current or [], given or []) is dict
        result[key] = in_order(named, others, order, current or [], meta.merge_key if keyed else None)


def _check_order(given: list[Any], order: list[Any], merge_key: str) -> None:
    """Every item of the patch has to stand in ``order``, in the same succession."""
    if not given or not order:
        return
    items = given
    if merge_key:
        for item in given:
            if not isinstance(item, dict):
                raise bad_type("map[string]interface {}", item)
        items = [item for item in given if item.get(_PATCH) != "delete"]
    at = 0
    for wanted in order:
        while at < len(items) and isinstance(items[at], dict) and _PATCH in items[at]:
            at += 1
        if at == len(items):
            return
        if merge_key:
            if not isinstance(wanted, dict):
                raise bad_type("map[string]interface {}", wanted)
            same = key_of(items[at], merge_key) == key_of(wanted, merge_key)
        else:
            same = identity(items[at]) == identity(wanted)
        at += same
    if at < len(items):
        raise errors.untyped(
            f"the order in patch list:\n{gotext.go_value(given)}\n doesn't match {_SET_ORDER} list:\n"
            f"{gotext.go_value(order)}"
        )


# ------------------------------------------------------------------ lists


def _merge_list(original: list[Any], patch: list[Any], meta: _Meta, *, deletes: bool) -> list[Any]:
    if not meta.merges:
        return patch
    if not original and not patch:
        return original
    if element_kind(original, patch) is not dict:
        gone = {identity(item) for item in patch}
        if deletes:
            return [item for item in original if identity(item) not in gone]
        merged = list({identity(item): item for item in [*original, *patch]}.values())
        named, others = partition(merged, patch, meta.merge_key)
        return in_order(named, others, patch, original, None)
    if not meta.merge_key:
        raise errors.untyped(f"cannot merge lists without merge key for type {_go_kind(meta.below)}")
    original, patch = _special_elements(original, patch, meta.merge_key)
    original, merged = _merge_items(original, patch, meta)
    named, others = partition(merged, patch, meta.merge_key)
    return in_order(named, others, patch, original, meta.merge_key)


def _special_elements(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Carries out ``$patch`` elements. Returns the original without what they delete, and the rest of the patch."""
    plain = []
    replaces = False
    gone = set()
    for item in patch:
        directive = item.get(_PATCH)
        if _PATCH not in item:
            plain.append(item)
        elif directive == "delete":
            gone.add(key_of(item, merge_key))
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise errors.untyped("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_patch_type(directive, item)
    if replaces:
        return plain, []
    if gone:
        original = [item for item in original if merge_key not in item or identity(item[merge_key]) not in gone]
    return original, plain


def _merge_items(original: list[Any], patch: list[Any], meta: _Meta) -> tuple[list[Any], list[Any]]:
    """The original with the patch's items merged in, without and with the new ones at its end."""
    merged = list(original)
    positions: dict[Identity, int] = {}
    for place, item in enumerate(original):
        if meta.merge_key in item:
            positions.setdefault(identity(item[meta.merge_key]), place)
    for item in patch:
        key = key_of(item, meta.merge_key)
        position = positions.get(key)
        if position is None:
            positions[key] = len(merged)
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, meta.below)
    return merged[: len(original)], merged
