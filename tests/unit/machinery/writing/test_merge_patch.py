"""machinery/writing/merge_patch.py: RFC 7386, its appendix included, and Kubernetes' refusals."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.writing import merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
    ],
)
def test_merging(document: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(document)
    assert merge_patch.apply(document, merge_patch.decode(json.dumps(patch).encode())) == result
    assert document == before


@pytest.mark.parametrize(
    ("text", "strict", "lax"),
    [
        ("", "error decoding patch: unexpected end of JSON input", "Invalid JSON Patch"),
        ("{", "error decoding patch: unexpected end of JSON input", "Invalid JSON Patch"),
        (
            '"x"',
            "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
            "Invalid JSON Patch",
        ),
        (
            "1",
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            "Invalid JSON Patch",
        ),
        (
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            None,
        ),
        ("null", "Invalid JSON Patch", "Invalid JSON Patch"),
    ],
)
def test_what_is_no_patch_is_400(text: str, strict: str, lax: str | None) -> None:
    with pytest.raises(APIStatusError) as caught:
        merge_patch.decode(text.encode())
    assert (caught.value.code, str(caught.value)) == (400, strict)
    if lax is None:
        assert merge_patch.apply({"a": 1}, merge_patch.decode(text.encode(), strict=False)) == []
        return
    with pytest.raises(APIStatusError) as caught:
        merge_patch.decode(text.encode(), strict=False)
    assert (caught.value.code, str(caught.value)) == (400, lax)


def test_repeated_keys_are_reported() -> None:
    text = b'{"a":1,"a":2,"b":{"c":1,"c":2}}'
    assert merge_patch.decode(text).strict_errors == ('duplicate field "a"', 'duplicate field "b.c"')
    assert merge_patch.decode(text, strict=False).strict_errors == ()


def test_a_patch_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(APIStatusError) as caught:
        merge_patch.apply({}, merge_patch.MergePatch(deep))
    assert caught.value.code == 400
