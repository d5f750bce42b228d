"""cel/patches.py: what expressions make to change an object."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.environment import ANY, Environment, EvaluationError, ExpressionError
from kubevouch.cel.patches import mismatches
from kubevouch.cel.values import Message

PATCHES = Environment({"object": ANY}, patches=True, tells_found=True)
SEEN = {"object": {"n": 1, "labels": {"a/b": "x"}}}


def made(source: str) -> Any:
    return PATCHES.compile(source).value(SEEN)


def complaint(source: str, *result: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        PATCHES.compile(source, result)
    return str(caught.value)


def test_objects_have_the_fields_that_are_given() -> None:
    program = PATCHES.compile("Object{spec: Object.spec{size: object.n + 1, ?none: object.?x, ?some: object.?n}}")
    assert program.result_type == "Object"
    assert program.evaluate(SEEN) == {"spec": {"size": 2, "some": 1}}
    assert made("Object{a: 1}.a") == 1
    assert made("has(Object{a: 1}.a) && !has(Object{a: 1}.b)") is True
    assert made("Object{a: 1} == Object{a: 1} && Object{a: 1} != Object{a: 2} && dyn(Object{}) != Object.a{}") is True
    with pytest.raises(EvaluationError, match="no such key: b"):
        made("Object{a: 1}.b")


def test_operations_of_a_json_patch() -> None:
    source = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: Object.x{}}]"
    program = PATCHES.compile(source, ("list(JSONPatch)",))
    assert program.evaluate({}) == [{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {}}]
    assert PATCHES.compile("has(object.x) ? [JSONPatch{op: 'remove'}] : []").result_type == "list(JSONPatch)"
    with pytest.raises(EvaluationError, match="unexpected type int64 for JSONPatchType 'op' field"):
        made("JSONPatch{op: object.n}")


@pytest.mark.parametrize(
    ("source", "result", "wanted"),
    [
        (
            "Object{spec: Object.spec{color: nope}}", "Object",
            "compilation failed: ERROR: <input>:1:33: undeclared reference to 'nope' (in container '')\n | Object{",
        ),
        ("Objects{}", "Object", "compilation failed: ERROR: <input>:1:8: undeclared reference to 'Objects' (in cont"),
        ("'x'", "list(JSONPatch)", "must evaluate to list(JSONPatch) but got string"),
        ("Object.spec{}", "Object", "must evaluate to Object but got Object.spec"),
        ("[]", "list(JSONPatch)", "must evaluate to list(JSONPatch) but got list(dyn)"),
        (
            "[JSONPatch{op: 1}]", "list(JSONPatch)",
            "compilation failed: ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'in",
        ),
        ("[JSONPatch{what: 1}]", "list(JSONPatch)", "compilation failed: ERROR: <input>:1:16: undefined field 'what'"),
    ],
)  # fmt: skip
def test_what_does_not_compile(source: str, result: str, wanted: str) -> None:
    assert complaint(source, result).startswith(wanted)


@pytest.mark.parametrize("source", ["Object{}", "JSONPatch{}", "jsonpatch.escapeKey('a')"])
def test_other_expressions_make_none(source: str) -> None:
    with pytest.raises(ExpressionError, match="undeclared reference"):
        Environment({"object": ANY}).compile(source)


def test_types_are_called_as_their_fields_are_reached() -> None:
    good = "Object{spec: Object.spec{list: [Object.spec.list{a: 1}], map: {'x': Object.spec.map{}}}}"
    assert list(mismatches(made(good))) == []
    assert list(mismatches(made("Object.spec{a: Object.spec.a{}}"))) == []
    assert list(mismatches({"a": 1})) == []
    bad = "Object{spec: Object.wrong{list: [Object.spec.lists{}]}}"
    end = "which matches field name path from root Object type"
    assert list(mismatches(made(bad))) == [
        f'unexpected type name "Object.wrong", expected "Object.spec", {end}',
        f'unexpected type name "Object.spec.lists", expected "Object.spec.list", {end}',
    ]


def test_a_literal_costs() -> None:
    assert isinstance(made("Object{}"), Message)
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        PATCHES.compile("object.l.map(x, object.l.map(y, Object{}))").value({"object": {"l": [0] * 200}})
