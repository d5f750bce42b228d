from __future__ import annotations

import copy
from typing import Any

import pytest

from kubevouch.structural import embedded
from kubevouch.structural.embedded import Malformed
from kubevouch.structural.schema import compile_schema

EMBEDDED = {
    "type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True,
}  # fmt: skip
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "e": EMBEDDED,
            "l": {"type": "array", "items": EMBEDDED},
            "m": {"type": "object", "additionalProperties": EMBEDDED},
        },
    }
)
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}


@pytest.mark.parametrize(
    ("given", "kept", "gone"),
    [
        ({"e": POD}, {"e": POD}, []),
        ({"e": {"metadata": None}}, {"e": {"metadata": {}}}, []),
        (
            {"e": {"metadata": {"name": "x", "colour": "red", "creationTimestamp": None}}, "x": {"metadata": 3}},
            {"e": {"metadata": {"name": "x"}}, "x": {"metadata": 3}},
            ["e.metadata.colour"],
        ),
        (
            {"l": [{"metadata": {"b": 1}}], "m": {"k": {"metadata": {"a": 1}}}},
            {"l": [{"metadata": {}}], "m": {"k": {"metadata": {}}}},
            ["l[0].metadata.b", "m.k.metadata.a"],
        ),
        ({"e": "x", "l": {}, "m": []}, {"e": "x", "l": {}, "m": []}, []),
    ],
)
def test_unknown_metadata_goes(given: dict[str, Any], kept: dict[str, Any], gone: list[str]) -> None:
    assert embedded.coerce(given, SCHEMA) == gone
    assert given == kept


@pytest.mark.parametrize(
    ("given", "error", "kept"),
    [
        (
            {"e": {"metadata": {"name": "x", "labels": 3}}},
            (
                'e.metadata: Invalid value: {"labels":3,"name":"x"}: json: cannot unmarshal number into Go struct '
                "field ObjectMeta.labels of type map[string]string"
            ),
            {"e": {"metadata": {"name": "x"}}},
        ),
        (
            {"m": {"k": {"metadata": {"labels": {"a": 1}}}}},
            (
                'm[k].metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field '
                "ObjectMeta.labels of type string"
            ),
            {"m": {"k": {"metadata": {}}}},
        ),
        ({"e": {"apiVersion": 1}}, "e.apiVersion: Invalid value: 1: must be a string", {"e": {}}),
        ({"l": [{"kind": None}]}, "l[0].kind: Invalid value: null: must be a string", {"l": [{}]}),
        (
            {"e": {"metadata": "x"}},
            'e.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta',
            {"e": {"metadata": "x"}},
        ),
    ],
)
def test_malformed_fields_are_refused_or_dropped_from_what_is_stored(
    given: dict[str, Any], error: str, kept: dict[str, Any]
) -> None:
    with pytest.raises(Malformed) as raised:
        embedded.coerce(copy.deepcopy(given), SCHEMA)
    assert str(raised.value) == error
    assert embedded.coerce(given, SCHEMA, drop_malformed=True) == []
    assert given == kept


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (POD, []),
        ({**POD, "metadata": {"name": "Bad_Name", "namespace": "n"}}, []),
        ({**POD, "metadata": {"generateName": "x-"}}, []),
        ({}, ["e.apiVersion: Required value", "e.kind: Required value"]),
        ({"apiVersion": "", "kind": ""}, ["e.apiVersion: Required value", "e.kind: Required value"]),
        (
            {"apiVersion": "a/b/c", "kind": "Pod"},
            ['e.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        ({**POD, "metadata": {"name": "a/b"}}, ["e.metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
        ({**POD, "metadata": {"name": ".."}}, ["e.metadata.name: Invalid value: \"..\": may not be '..'"]),
    ],
)
def test_embedded_objects_are_objects(given: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in embedded.check_embedded({"e": given}, SCHEMA)] == expected


def test_the_kind_is_nearly_a_label() -> None:
    (error,) = embedded.check_embedded({"e": {"apiVersion": "v1", "kind": "A b"}}, SCHEMA)
    assert error.detail.startswith("may have mixed case, but should otherwise match: a DNS-1035 label must consist")
