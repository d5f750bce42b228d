from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.formats import unrecognized_formats


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"type": "string", "format": "date-time"}, []),
        ({"type": "string", "format": "dateTime"}, ["dateTime"]),
        ({"format": "uuid"}, []),
        ({"type": "string", "format": "k8s-short-name"}, []),
        ({"type": "string", "format": "int32"}, ["int32"]),
        ({"type": "integer", "format": "int32"}, []),
        ({"type": "integer", "format": "uint8"}, ["uint8"]),
        ({"type": "number", "format": "double"}, []),
        ({"type": "object", "format": "uuid"}, ["uuid"]),
        (
            {
                "properties": {"a": {"items": {"format": "x"}}, "b": {"additionalProperties": {"format": "y"}}},
                "anyOf": [{"not": {"format": "z"}}, {"format": "x"}],
                "items": [{"format": "w"}],
                "dependencies": {"a": ["b"]},
            },
            ["w", "z", "x", "y"],
        ),
    ],
)
def test_formats_that_nobody_checks(tree: dict[str, Any], expected: list[str]) -> None:
    assert unrecognized_formats(tree) == expected
