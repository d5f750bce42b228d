from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural import pruning
from kubevouch.structural.schema import compile_schema

STRING = {"type": "string"}
ANY_KEY = {"type": "object", "additionalProperties": True}
PRESERVED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "given", "kept", "gone"),
    [
        (of(a=STRING), {"a": "x", "b": 1}, {"a": "x"}, ["b"]),
        (of(), {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}}, {"apiVersion": "v1", "kind": "K",
         "metadata": {"x": 1}}, []),
        (of(spec=of(a=STRING)), {"spec": {"kind": "x", "a": "y"}}, {"spec": {"a": "y"}}, ["spec.kind"]),
        (of(e=EMBEDDED), {"e": {"kind": "x", "metadata": {"z": 1}, "spec": {"a": 1}, "status": {}}},
         {"e": {"kind": "x", "metadata": {"z": 1}, "spec": {}}}, ["e.spec.a", "e.status"]),
        (of(l={"type": "array", "items": of(a=STRING)}), {"l": [{"a": "x", "b": 1}, 3]}, {"l": [{"a": "x"}, 3]},
         ["l[0].b"]),
        (of(m={"type": "object", "additionalProperties": of(a=STRING)}), {"m": {"k": {"a": "x", "b": 1}}},
         {"m": {"k": {"a": "x"}}}, ["m.k.b"]),
        (of(m=ANY_KEY), {"m": {"k": {"a": 1}, "l": [1], "s": "x"}}, {"m": {"k": {}, "l": [1], "s": "x"}}, ["m.k.a"]),
        (of(p=PRESERVED), {"p": {"k": {"a": [{"b": 1}]}}}, {"p": {"k": {"a": [{"b": 1}]}}}, []),
        (of(p=PRESERVED | of(d=of())), {"p": {"k": {"a": 1}, "d": {"a": 1}}}, {"p": {"k": {"a": 1}, "d": {}}},
         ["p.d.a"]),
        (of(p={"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": of(d=of())}),
         {"p": [{"k": 1, "d": {"a": 1}}]}, {"p": [{"k": 1, "d": {}}]}, ["p[0].d.a"]),
        (of(s=STRING), {"s": {"a": 1}}, {"s": {}}, ["s.a"]),
        (PRESERVED | of(d=of()), {"x": 1, "d": {"a": 1}}, {"x": 1, "d": {}}, ["d.a"]),
    ],
)  # fmt: skip
def test_what_a_schema_does_not_declare_goes_and_is_told(
    schema: dict[str, Any], given: dict[str, Any], kept: dict[str, Any], gone: list[str]
) -> None:
    assert pruning.prune(given, compile_schema(schema)) == gone
    assert given == kept
