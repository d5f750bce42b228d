"""structural/open_types.py: what a schema says of types, and what it leaves open."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.cel.compiler import compile_expression
from kubevouch.cel.program import ExpressionError
from kubevouch.structural.open_types import open_type
from kubevouch.structural.schema import compile_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "when": {"type": "string", "format": "date-time"},
                "x-y": {"type": "string"},
                "port": {"x-kubernetes-int-or-string": True},
                "tags": {"type": "array", "items": {"type": "string"}},
                "by": {"type": "object", "additionalProperties": {"type": "number"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "half": {
                    "type": "object",
                    "properties": {"a": {"type": "boolean"}},
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {}}},
            },
        }
    },
}


def compile_over(source: str) -> str:
    return str(compile_expression(source, {"object": open_type(compile_schema(SCHEMA), "Widget", whole=True)}).type)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("object.spec.size", "int"),
        ("object.spec.when", "dyn"),
        ("object.spec.x__dash__y", "string"),
        ("object.spec.port", "dyn"),
        ("object.spec.tags", "list(string)"),
        ("object.spec.by['a']", "double"),
        ("object.spec.free.anything.below", "dyn"),
        ("object.spec.half.a", "bool"),
        ("object.spec.half.b", "dyn"),
        ("object.spec.pod.metadata.labels", "map(string, string)"),
        ("object.metadata.labels['a'] + object.kind + object.apiVersion", "string"),
        ("object.spec", "Widget.spec"),
    ],
)
def test_types(source: str, kind: str) -> None:
    assert compile_over(source) == kind


@pytest.mark.parametrize("source", ["object.specs", "object.spec.size == 'a'", "object.spec.tags.all(t, t > 1)"])
def test_what_is_warned_of(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_over(source)
