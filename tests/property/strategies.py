"""Hypothesis strategies made from the declarations: any struct, and the JSON trees and texts around it."""

from __future__ import annotations

import string
from functools import cache
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from kubevouch.api.apiextensions_v1.schema_fields import FIELDS
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.api.catalog import SCHEME
from kubevouch.api.empty_kinds import EMPTY_KINDS
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.declaration import IntOrString, Quantity, RawJSON
from kubevouch.machinery.schema import ListSchema, MapSchema, ScalarSchema, StructSchema, TypeSchema, schema_of
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text.times import ZERO_SECONDS, MicroTime, Time

S = TypeVar("S", bound=msgspec.Struct)

YEAR_9999 = 253402300799
MAX_LIST = 3

texts = st.text(st.characters(codec="utf-8"), max_size=8)
words = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=6)
seconds = st.integers(ZERO_SECONDS + 1, YEAR_9999)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
times = seconds.map(Time)
micro_times = st.integers((ZERO_SECONDS + 1) * 1_000_000, YEAR_9999 * 1_000_000).map(MicroTime)
quantities = st.sampled_from(["0", "1", "100m", "3986Mi", "-1", "1e3"]).map(Quantity)

# Any JSON document; floats stay out, as a number's text is kept by one reader and not by the other.
json_scalars = st.none() | st.booleans() | int64s | texts
json_trees = st.recursive(
    json_scalars, lambda inner: st.lists(inner, max_size=MAX_LIST) | st.dictionaries(texts, inner, max_size=MAX_LIST)
)
json_objects = st.dictionaries(texts, json_trees, max_size=MAX_LIST)
# FieldsV1-shaped: objects all the way down.
raw_json = st.recursive(
    st.just({}), lambda inner: st.dictionaries(words.map("f:{}".format), inner, max_size=MAX_LIST), max_leaves=5
).map(lambda tree: RawJSON(json_codec.encode(tree)))

_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": texts, "bytes": st.binary(max_size=8), "bool": st.booleans(), "int32": int32s, "int64": int64s,
    "time": times, "microtime": micro_times, "quantity": quantities, "json": raw_json,
    "intorstring": (int32s | texts).map(IntOrString),
}  # fmt: skip


def _schema_trees(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Trees of JSONSchemaProps around smaller ones; a list beside a schema is never empty, as Go writes null then."""
    several = st.lists(inner, min_size=1, max_size=2)
    documentation = st.fixed_dictionaries({}, optional={"description": texts, "url": texts})
    rule = st.fixed_dictionaries(
        {"rule": texts}, optional={"message": texts, "reason": texts, "optionalOldSelf": st.booleans()}
    )
    doubles = st.integers(-1000, 1000).map(lambda number: number / 4)
    named = st.dictionaries(words, inner, max_size=2)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": texts, "bool": st.booleans(), "int64": int64s, "double": doubles, "json": json_trees,
        "jsons": st.lists(json_trees, max_size=2), "strings": st.lists(texts, max_size=2),
        "schema": inner, "schemas": st.lists(inner, max_size=2), "schema_map": named,
        "or_bool": st.booleans() | inner, "or_array": inner | several,
        "or_strings_map": st.dictionaries(words, inner | st.lists(texts, min_size=1, max_size=2), max_size=2),
        "documentation": documentation, "rules": st.lists(rule, max_size=2),
    }  # fmt: skip
    values = st.sampled_from(sorted(FIELDS)).flatmap(lambda name: st.tuples(st.just(name), kinds[FIELDS[name].kind]))
    return st.lists(values, max_size=4).map(dict)


schema_trees: st.SearchStrategy[Any] = st.recursive(st.just({}), _schema_trees, max_leaves=4)
_SCALARS["opaque"] = schema_trees.map(lambda tree: JSONSchemaProps.from_tree(tree, lambda _what, _path: None, "", ""))


@cache
def struct_strategy(struct: type[S]) -> st.SearchStrategy[S]:
    """Objects of a declared struct with anything that its fields can hold.

    The kind and apiVersion of documents stay empty, as they are in memory.
    """
    fields = {}
    for field in schema_of(struct).fields:
        if field.name in ("kind", "apiVersion") and not field.number:
            continue
        values = value_strategy(field.type)
        fields[field.attribute] = st.none() | values if field.pointer else values
    return st.builds(struct, **fields)


def value_strategy(schema: TypeSchema) -> st.SearchStrategy[Any]:
    """Values of one field."""
    if isinstance(schema, ScalarSchema):
        return _SCALARS[schema.kind]
    if isinstance(schema, ListSchema):
        return st.lists(value_strategy(schema.item), max_size=MAX_LIST)
    if isinstance(schema, MapSchema):
        return st.dictionaries(texts, value_strategy(schema.value), max_size=MAX_LIST)
    return struct_strategy(schema.type)


def tree_strategy(schema: TypeSchema) -> st.SearchStrategy[Any]:
    """JSON trees that nearly fit ``schema``: known fields with fitting values, nulls and now and then nonsense."""
    return st.one_of(_fitting(schema), _fitting(schema), _fitting(schema), json_trees)


@cache
def _fitting(schema: TypeSchema) -> st.SearchStrategy[Any]:
    if isinstance(schema, StructSchema):
        fields = {field.name: st.none() | tree_strategy(field.type) for field in schema.fields}
        return st.fixed_dictionaries({}, optional=fields)
    if isinstance(schema, ListSchema):
        return st.lists(tree_strategy(schema.item), max_size=MAX_LIST)
    if isinstance(schema, MapSchema):
        return st.dictionaries(words, tree_strategy(schema.value), max_size=MAX_LIST)
    return _SCALARS[schema.kind].map(json_codec.to_builtins)


def same_on_the_wire(value: Any) -> Any:
    """``value`` with nil and empty lists made alike where a list may be nil: protobuf cannot tell them apart."""
    changes = {}
    for field in schema_of(type(value)).fields:
        inner = getattr(value, field.attribute)
        nil = field.pointer and inner == [] and isinstance(field.type, ListSchema)
        changes[field.attribute] = None if nil else _same_value(inner, field.type)
    return msgspec.structs.replace(value, **changes)


def _same_value(value: Any, schema: TypeSchema) -> Any:
    if value is None:
        return None
    if isinstance(schema, StructSchema):
        return same_on_the_wire(value)
    if isinstance(schema, ListSchema):
        return [_same_value(item, schema.item) for item in value]
    if isinstance(schema, MapSchema):
        return {key: _same_value(item, schema.value) for key, item in value.items()}
    return value


_EMPTY = {(each.group_version, each.kind) for each in EMPTY_KINDS}


def described_kinds() -> dict[type[Any], GroupVersionKind]:
    """Each struct with the first of its kinds: the options of requests are kinds of every group.

    The kinds of which there is never an object look all alike; only one of each of their two shapes is here.
    """
    kinds = sorted(SCHEME.kinds.items(), key=lambda item: item[0])
    shapes = {each.has_spec: each for each in EMPTY_KINDS}.values()
    kept = {(each.group_version, each.kind) for each in shapes}
    described = [item for item in kinds if (item[0].api_version, item[0].kind) not in _EMPTY - kept]
    return {struct: gvk for gvk, struct in reversed(described)}
