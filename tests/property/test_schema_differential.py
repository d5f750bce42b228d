"""Our checks of values against a library for JSON Schema, on what both mean alike: is a value valid or not.

Draft 4 is the one whose ``exclusiveMinimum`` is a boolean, as in OpenAPI. Not generated is what Kubernetes means
otherwise: null, whole numbers with a fraction, formats, patterns beyond RE2's, its own extensions.
"""

from __future__ import annotations

from typing import Any

import fastjsonschema
from hypothesis import given, reject
from hypothesis import strategies as st

from kubevouch.structural.schema import compile_schema
from kubevouch.structural.values import compile_checks, validate

NAMES = st.sampled_from(["a", "b", "c"])
SMALL = st.integers(0, 4)
TEXTS = st.text("ab", max_size=4)

values = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 5), st.sampled_from([0.5, 2.5]), TEXTS),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=3)),
    max_leaves=8,
)


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


def _with(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(below, min_size=1, max_size=3)
    return st.one_of(
        _some(
            type=st.just("object"),
            properties=st.dictionaries(NAMES, below, max_size=3),
            additionalProperties=st.one_of(st.booleans(), below),
            required=st.lists(NAMES, min_size=1, max_size=2, unique=True),
            minProperties=SMALL,
            maxProperties=SMALL,
        ),
        _some(type=st.just("array"), items=below, minItems=SMALL, maxItems=SMALL),
        _some(allOf=several, anyOf=several, oneOf=several),
        _some(**{"not": below}),
    )


scalars = st.one_of(
    _some(
        type=st.sampled_from(["integer", "number"]),
        minimum=st.integers(-3, 4),
        maximum=st.integers(-3, 4),
        multipleOf=st.sampled_from([1, 2, 3]),
    ),
    st.fixed_dictionaries({"minimum": st.integers(-3, 4), "exclusiveMinimum": st.booleans()}),
    st.fixed_dictionaries({"maximum": st.integers(-3, 4), "exclusiveMaximum": st.booleans()}),
    _some(type=st.just("string"), minLength=SMALL, maxLength=SMALL, pattern=st.sampled_from(["^a", "b$", "ab|ba"])),
    _some(type=st.just("boolean")),
    st.fixed_dictionaries({"enum": st.lists(TEXTS, min_size=1, max_size=3, unique=True)}),
)
schemas = st.recursive(scalars, _with, max_leaves=6)


@given(schema=schemas, value=values)
def test_what_is_valid(schema: dict[str, Any], value: Any) -> None:
    try:
        check = fastjsonschema.compile({"$schema": "http://json-schema.org/draft-04/schema"} | schema)
    except fastjsonschema.JsonSchemaDefinitionException:
        reject()  # the library refuses some that nothing can satisfy
    try:
        check(value)
        valid = True
    except fastjsonschema.JsonSchemaException:
        valid = False

    assert (validate(compile_checks(compile_schema(schema)), value) == []) is valid
