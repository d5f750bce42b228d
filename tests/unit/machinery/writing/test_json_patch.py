"""machinery/writing/json_patch.py: RFC 6902 and the liberties that Kubernetes takes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.writing import json_patch


def patched(document: Any, *operations: Any) -> Any:
    before = copy.deepcopy(document)
    result = json_patch.apply(document, json_patch.decode(json.dumps(operations).encode()))
    assert document == before
    return result


def op(kind: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path} | ({"value": value[0]} if value else {}) | more


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ({}, op("add", "/a", 1), {"a": 1}),
        ({"a": 1}, op("add", "/a", 2), {"a": 2}),
        ({"a": [1]}, op("add", "/a/-", 2), {"a": [1, 2]}),
        ({"a": [1]}, op("add", "/a/0", 2), {"a": [2, 1]}),
        ({"a": [1]}, op("add", "/a/1", 2), {"a": [1, 2]}),
        ({}, op("add", "/a", None), {"a": None}),
        ({}, op("add", "/a"), {"a": None}),
        ({"a": {"b": 1}}, op("remove", "/a/b"), {"a": {}}),
        ({"a": [1, 2, 3]}, op("remove", "/a/1"), {"a": [1, 3]}),
        ({"a": 1}, op("replace", "/a", 2), {"a": 2}),
        ({}, op("replace", "/a", 2), {"a": 2}),
        ({"a": [1]}, op("replace", "/a/0", 2), {"a": [2]}),
        ({"a": 1}, op("replace", "", {"b": 2}), {"b": 2}),
        ({"a": 1}, op("move", "/b", **{"from": "/a"}), {"b": 1}),
        ({"a": {"x": 1}}, op("copy", "/b", **{"from": "/a"}), {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, op("test", "/a", 1), {"a": 1}),
        ({"a": None}, op("test", "/a", None), {"a": None}),
        ({}, op("test", "/a", None), {}),
        ({"a": {"b": [1, "x"]}}, op("test", "/a", {"b": [1, "x"]}), {"a": {"b": [1, "x"]}}),
        ({"a/b": {"c~d": 1}}, op("replace", "/a~1b/c~0d", 2), {"a/b": {"c~d": 2}}),
        ({"": {"": 1}}, op("replace", "//", 2), {"": {"": 2}}),
        ({"a": 1}, op("remove", "before/a"), {}),
        ({"a": [1, 2]}, op("remove", "/a/-1"), {"a": [1]}),
    ],
)
def test_operations(document: Any, operation: Any, result: Any) -> None:
    assert patched(document, operation) == result


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        ({}, op("remove", "/a")),
        ({}, op("remove", "")),
        ({}, op("add", "", {})),
        ({}, op("add", "/a/b", 1)),
        ({"a": "text"}, op("add", "/a/b", 1)),
        ({"a": [1]}, op("add", "/a/2", 1)),
        ({"a": [1]}, op("add", "/a/x", 1)),
        ({"a": [1]}, op("remove", "/a/1")),
        ({"a": [1]}, op("remove", "/a/-")),
        ({"a": [1]}, op("remove", "/a/-2")),
        ({"a": [1]}, op("replace", "/a/1", 1)),
        ({"a": 1}, op("replace", "", "text")),
        ({"a": 1}, op("test", "/a", 2)),
        ({"a": 1}, op("test", "/a", 1.0)),
        ({"a": 1}, op("test", "/a", True)),
        ({"a": 1}, op("test", "/a")),
        ({"a": None}, op("test", "/a", 0)),
        ({"a": {"b": 1}}, op("test", "/a", {"b": 1, "c": None})),
        ({"a": 1}, op("test", "", {"a": 2})),
        ({}, op("move", "/b", **{"from": "/a"})),
        ({"a": 1}, op("move", "/b")),
        ({"a": 1}, op("copy", "/b/c", **{"from": "/a"})),
        ({}, op("explode", "/a")),
        ({}, {"path": "/a"}),
        ({}, {"op": "remove"}),
        ({}, None),
    ],
)
def test_what_cannot_be_carried_out_is_422_without_a_reason_why(document: Any, operation: Any) -> None:
    with pytest.raises(APIStatusError) as caught:
        patched(document, operation)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert str(caught.value) == "the server rejected our request due to an error in our request"


def test_operations_follow_each_other_and_all_count_or_none() -> None:
    assert patched({}, op("add", "/a", {}), op("add", "/a/b", 1), op("test", "/a/b", 1)) == {"a": {"b": 1}}
    with pytest.raises(APIStatusError):
        patched({"a": 1}, op("remove", "/a"), op("test", "/a", 1))


def test_a_copy_shares_nothing() -> None:
    operations = (op("copy", "/b", **{"from": "/a"}), op("add", "/b/x", 1))
    assert patched({"a": {}}, *operations) == {"a": {}, "b": {"x": 1}}


def test_an_empty_patch_and_null() -> None:
    assert patched({"a": 1}) == {"a": 1}
    assert json_patch.apply({"a": 1}, json_patch.decode(b"null")) == {"a": 1}


def test_copies_are_bounded() -> None:
    text = "x" * (json_patch.MAX_COPIED_BYTES // 4)
    grow = [op("copy", f"/{number}", **{"from": "/a"}) for number in range(4)]
    assert len(patched({"a": text}, *grow[:3])) == 4
    with pytest.raises(APIStatusError):
        patched({"a": text}, *grow)


@pytest.mark.parametrize(("count", "code"), [(10_000, 0), (10_001, 413)])
def test_operations_are_counted(count: int, code: int) -> None:
    data = json.dumps([op("test", "", {})] * count).encode()
    if not code:
        assert len(json_patch.decode(data).operations) == count
        return
    with pytest.raises(APIStatusError) as caught:
        json_patch.decode(data)
    assert caught.value.code == code
    assert str(caught.value) == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


@pytest.mark.parametrize(
    ("text", "strict", "lax"),
    [
        (
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
        ("[", "error decoding patch: unexpected end of JSON input", "unexpected end of JSON input"),
        (
            '[{"op":1}]',
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            None,
        ),
    ],
)
def test_what_is_no_patch_is_400(text: str, strict: str, lax: str | None) -> None:
    with pytest.raises(APIStatusError) as caught:
        json_patch.decode(text.encode())
    assert (caught.value.code, str(caught.value)) == (400, strict)
    if lax is None:
        assert json_patch.decode(text.encode(), strict=False).operations
        return
    with pytest.raises(APIStatusError) as caught:
        json_patch.decode(text.encode(), strict=False)
    assert (caught.value.code, str(caught.value)) == (400, lax)


def test_strict_reading() -> None:
    text = b'[{"op":"add","op":"test","path":"","foo":1,"value":{"a":1,"a":2}}]'
    assert json_patch.decode(text).strict_errors == (
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].foo"',
        'json patch duplicate field "[0].value.a"',
    )
    assert json_patch.decode(text, strict=False).strict_errors == ()


def test_a_document_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(APIStatusError) as caught:
        json_patch.apply({"a": deep}, json_patch.decode(b"[]"))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ({"op": "add", "path": "/x/y"}, 'add operation does not apply: doc is missing path: "/x/y": missing value'),
        (
            {"op": "replace", "path": "/x/y"},
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (
            {"op": "remove", "path": "/x"},
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            {"op": "add", "path": "/l/7", "value": 1},
            "error in add for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            {"op": "replace", "path": "/l/7"},
            "replace operation does not apply: doc is missing key: /l/7: missing value",
        ),
        (
            {"op": "move", "from": "/x/y", "path": "/l"},
            "move operation does not apply: doc is missing from path: /x/y: missing value",
        ),
        (
            {"op": "copy", "from": "/l", "path": "/x/y"},
            "copy operation does not apply: doc is missing destination path: /x/y: missing value",
        ),
        ({"op": "turn", "path": "/l"}, "Unexpected kind: turn"),
        ({"op": "test", "path": "/l", "value": 1}, "testing value /l failed: test failed"),
    ],
)
def test_why_a_patch_does_not_apply(operation: dict[str, Any], wanted: str) -> None:
    with pytest.raises(json_patch.DoesNotApply) as caught:
        json_patch.carry_out({"l": [1]}, json_patch.JSONPatch((operation,)))
    assert str(caught.value) == wanted
    assert isinstance(caught.value, json_patch.TestFailed) is (operation["op"] == "test")
