"""machinery/writing/strategic_merge_patch.py: keyed lists, directives, order, and Kubernetes' refusals."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.writing import strategic_merge_patch
from unit.machinery.widgets import Widget

SCHEMA = schema_of(Widget)


def patched(spec: dict[str, Any], patch: dict[str, Any]) -> Any:
    document = {"spec": spec}
    before = copy.deepcopy(document)
    text = json.dumps({"spec": patch}).encode()
    result = strategic_merge_patch.apply(document, strategic_merge_patch.decode(text), SCHEMA)
    assert document == before
    return result["spec"]


def port(number: int, **more: Any) -> dict[str, Any]:
    return {"port": number} | more


@pytest.mark.parametrize(
    ("spec", "patch", "result"),
    [
        ({"color": "red"}, {"color": "green"}, {"color": "green"}),
        ({"color": "red", "size": 1}, {"color": None}, {"size": 1}),
        ({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        ({"front": {"width": 1}}, {"front": {"title": "t"}}, {"front": {"width": 1, "title": "t"}}),
        ({}, {"front": {"width": None, "title": "t"}}, {"front": {"title": "t"}}),
        # Lists without a key are replaced.
        ({"steps": ["a"]}, {"steps": ["b"]}, {"steps": ["b"]}),
        ({"windows": [{"width": 1}]}, {"windows": [{"title": "t"}]}, {"windows": [{"title": "t"}]}),
        # Lists of scalars that merge: what is new goes before the rest.
        ({"tags": ["a", "b"]}, {"tags": ["c", "a"]}, {"tags": ["c", "a", "b"]}),
        ({"tags": ["a"]}, {"tags": []}, {"tags": ["a"]}),
        ({}, {"tags": ["a"]}, {"tags": ["a"]}),
        ({"tags": ["a", "b"]}, {"$deleteFromPrimitiveList/tags": ["a", "x"]}, {"tags": ["b"]}),
        ({}, {"$deleteFromPrimitiveList/tags": ["a"]}, {}),
        # Lists with a key.
        (
            {"ports": [port(1, name="a"), port(2)]},
            {"ports": [port(2, name="b")]},
            {"ports": [port(1, name="a"), port(2, name="b")]},
        ),
        ({"ports": [port(1), port(2)]}, {"ports": [port(3)]}, {"ports": [port(3), port(1), port(2)]}),
        ({"ports": [port(1, name="a")]}, {"ports": [port(1, name=None)]}, {"ports": [port(1)]}),
        ({"ports": [port(1), port(2)]}, {"ports": [port(1, **{"$patch": "delete"})]}, {"ports": [port(2)]}),
        ({"ports": [port(1), port(2)]}, {"ports": [{"$patch": "replace"}, port(3)]}, {"ports": [port(3)]}),
        ({"ports": [port(1), port(2)]}, {"ports": [{"$patch": "replace"}]}, {"ports": []}),
        ({"ports": [port(1)]}, {"ports": None}, {}),
        # Directives of maps.
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
        ({"front": {"width": 1, "height": 2}}, {"front": {"$retainKeys": ["height", "title"], "title": "t"}},
         {"front": {"height": 2, "title": "t"}}),
        # The order that the client wants.
        (
            {"ports": [port(1), port(2), port(3)]},
            {"$setElementOrder/ports": [port(3), port(1), port(2)], "ports": [port(3, name="c")]},
            {"ports": [port(3, name="c"), port(1), port(2)]},
        ),
        ({"tags": ["a", "b"]}, {"$setElementOrder/tags": ["b", "a"]}, {"tags": ["b", "a"]}),
        ({"tags": ["x", "a"]}, {"$setElementOrder/tags": ["b", "a"], "tags": ["b"]}, {"tags": ["b", "x", "a"]}),
        ({}, {"$setElementOrder/tags": ["a"]}, {}),
        # Keyed lists below keyed lists.
        (
            {"conditions": [{"type": "A", "steps": ["1"], "details": {"x": "1"}}]},
            {"conditions": [{"type": "A", "steps": ["2"], "details": {"y": "2"}}]},
            {"conditions": [{"type": "A", "steps": ["2", "1"], "details": {"x": "1", "y": "2"}}]},
        ),
    ],
)  # fmt: skip
def test_merging(spec: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert patched(spec, patch) == result


@pytest.mark.parametrize(
    ("spec", "patch", "code", "message"),
    [
        (
            {},
            {"$patch": "explode"},
            500,
            "unknown patch type: explode in map: map[$patch:explode]",
        ),
        (
            {"ports": [port(1)]},
            {"ports": [{"name": "a"}]},
            500,
            "map: map[name:a] does not contain declared merge key: port",
        ),
        (
            {"ports": [port(1)]},
            {"ports": [{"$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"labels": {"a": "1"}, "unknown": {}},
            {"unknown": {"a": 1}},
            500,
            'unable to find api field in struct WidgetSpec for the json field "unknown"',
        ),
        ({"tags": ["a"]}, {"tags": [1]}, 500, "list element types are not identical: [[a] [1]]"),
        ({"tags": ["a"]}, {"$deleteFromPrimitiveList": ["a"]}, 400, "invalid patch format of primitive list"),
        ({"tags": ["a"]}, {"$setElementOrder": ["a"]}, 400, "invalid patch format of setElementOrder list"),
        ({"front": {}}, {"front": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys"),
        ({"front": {}}, {"front": {"$retainKeys": ["a"], "title": "t"}}, 400, "invalid patch format of retainKeys"),
        (
            {"tags": ["a"]},
            {"$setElementOrder/tags": ["a", "b"], "tags": ["b", "a"]},
            500,
            "the order in patch list:\n[b a]\n doesn't match $setElementOrder list:\n[a b]",
        ),
    ],
)
def test_refusals(spec: dict[str, Any], patch: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        patched(spec, patch)
    assert (caught.value.code, str(caught.value)) == (code, message)
    assert caught.value.reason == ("" if code == 500 else "BadRequest")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "unexpected end of JSON input"),
        (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b'"x"', "json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_no_patch(text: bytes, message: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        strategic_merge_patch.decode(text)
    assert (caught.value.code, str(caught.value)) == (400, message)


def test_null_is_an_empty_patch() -> None:
    assert strategic_merge_patch.apply({"a": 1}, strategic_merge_patch.decode(b"null"), SCHEMA) == {"a": 1}


def test_repeated_keys_are_reported() -> None:
    text = b'{"spec":{"color":"red","color":"green"}}'
    assert strategic_merge_patch.decode(text).strict_errors == ('duplicate field "spec.color"',)
    assert strategic_merge_patch.decode(text, strict=False).strict_errors == ()


def test_a_long_list_takes_time_in_proportion_to_it() -> None:
    ports = [port(number) for number in range(5000)]
    result = patched({"ports": ports}, {"ports": [port(number, name="x") for number in range(5000)]})
    assert result["ports"] == [port(number, name="x") for number in range(5000)]
