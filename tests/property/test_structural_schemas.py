"""Laws of structural schemas: what cleaning leaves, what defaults may touch, and that what did not change may stay."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevouch.structural.definition import check_schema
from kubevouch.structural.equality import same
from kubevouch.structural.schema import compile_schema
from kubevouch.structural.version import CompiledVersion

lenient = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
KEYS = ("a", "b", "c")
_texts = st.sampled_from(["", "a", "bb", "2024-01-01", "x" * 5])
_scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.sampled_from([0.5, 2.5]), _texts)
values = st.recursive(
    _scalars,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.sampled_from(KEYS), below, max_size=3)),
    max_leaves=8,
)
objects = st.fixed_dictionaries({"spec": values}, optional={"status": values, "extra": values})


def _with(draw: st.DrawFn, tree: dict[str, Any], **choices: st.SearchStrategy[Any]) -> dict[str, Any]:
    for name, choice in choices.items():
        if draw(st.integers(0, 3)) == 0:
            tree[name.replace("__", "-")] = draw(choice)
    return tree


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    kind = draw(st.sampled_from(("string", "integer", "number", "boolean", "object", "map", "array", "any", "both")))
    if depth == 0 and kind in ("object", "map", "array"):
        kind = "string"
    tree: dict[str, Any] = {"type": kind}
    if kind == "string":
        _with(
            draw, tree, maxLength=st.integers(0, 3), minLength=st.integers(0, 2), pattern=st.sampled_from(("^a", "b$")),
            format=st.sampled_from(("date", "uuid")), enum=st.just(["a", "bb"]), default=_texts,
            anyOf=st.just([{"maxLength": 1}, {"pattern": "^b"}]), **{"not": st.just({"pattern": "^x"})},
        )  # fmt: skip
    elif kind in ("integer", "number"):
        _with(draw, tree, minimum=st.integers(-1, 2), maximum=st.integers(1, 99), default=st.integers(-5, 5))
    elif kind == "object":
        names = draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1))
        tree["properties"] = {name: draw(schemas(depth - 1)) for name in names}
        _with(
            draw, tree, required=st.lists(st.sampled_from(KEYS), unique=True), default=st.just({}),
            oneOf=st.just([{"required": ["a"]}, {"required": ["b"]}]),
            x__kubernetes__preserve__unknown__fields=st.just(True),
        )  # fmt: skip
    elif kind == "map":
        tree = {"type": "object", "additionalProperties": draw(schemas(depth - 1))}
        _with(draw, tree, maxProperties=st.integers(0, 2))
    elif kind == "array":
        tree["items"] = draw(schemas(depth - 1))
        _with(draw, tree, maxItems=st.integers(0, 2), x__kubernetes__list__type=st.just("set"))
    elif kind == "any":
        tree = {"x-kubernetes-preserve-unknown-fields": True}
    elif kind == "both":
        tree = {"x-kubernetes-int-or-string": True}
    return _with(draw, tree, nullable=st.just(True))


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": draw(schemas()), "status": draw(schemas(1))}}


def validated(version: CompiledVersion, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in version.validate(new, old).errors]


@given(definitions(), objects)
@lenient
def test_cleaning_twice_is_cleaning_once(tree: dict[str, Any], value: dict[str, Any]) -> None:
    version = CompiledVersion(tree)
    version.clean(value)
    again = copy.deepcopy(value)
    assert version.clean(again) == []
    assert same(again, value)
    assert validated(version, again) == validated(version, value)


@given(definitions(), objects)
@lenient
def test_what_did_not_change_is_never_refused(tree: dict[str, Any], value: dict[str, Any]) -> None:
    version = CompiledVersion(tree)
    version.clean(value)
    assert validated(version, copy.deepcopy(value), value) == []


@given(definitions(), objects, objects)
@lenient
def test_a_change_is_refused_only_for_what_is_wrong(
    tree: dict[str, Any], new: dict[str, Any], old: dict[str, Any]
) -> None:
    version = CompiledVersion(tree)
    version.clean(new)
    version.clean(old)
    assert set(validated(version, new, old)) <= set(validated(version, new))


def _kept(before: Any, after: Any) -> bool:
    """Whether ``after`` is ``before`` but for keys that came and nulls that were filled."""
    if before is None:
        return True
    if isinstance(before, dict):
        return isinstance(after, dict) and all(key in after and _kept(item, after[key]) for key, item in before.items())
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(_kept, before, after))
    return same(before, after)


@given(definitions(), objects)
@lenient
def test_defaults_only_fill_what_is_absent(tree: dict[str, Any], value: dict[str, Any]) -> None:
    bare = copy.deepcopy(value)
    CompiledVersion(_without_defaults(tree)).clean(bare)
    CompiledVersion(tree).clean(value)
    assert _kept(bare, value)


def _without_defaults(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_defaults(item) for key, item in tree.items() if key != "default"}
    return tree


@given(definitions())
@lenient
def test_accepted_defaults_are_accepted_as_values(tree: dict[str, Any]) -> None:
    if check_schema(tree, "f", status_enabled=False):
        return
    version = CompiledVersion(tree)
    for name, below in compile_schema(tree).properties.items():
        if isinstance(below.default, (str, int)):
            assert validated(version, {name: below.default}) == []
