from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.scale import ScalePaths

PATHS = ScalePaths(".spec.replicas", ".status.replicas", ".status.selector")


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, []),
        ({"spec": None}, []),
        ({"spec": {"replicas": 0}, "status": {"replicas": 2147483647, "selector": "a=b"}}, []),
        ({"spec": {"replicas": -1}}, [".spec.replicas: Invalid value: -1: should be a non-negative integer"]),
        (
            {"status": {"replicas": 2147483648}},
            [".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"],
        ),
        (
            {"spec": {"replicas": "3"}},
            [
                (
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 3 is of the type string, "
                    "expected int64"
                )
            ],
        ),
        (
            {"spec": ["x"]},
            [
                (
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: [x] is of the type "
                    "[]interface {}, expected map[string]interface{}"
                )
            ],
        ),
        (
            {"status": {"selector": None}},
            [
                (
                    '.status.selector: Invalid value: "": .status.selector accessor error: <nil> is of the type <nil>, '
                    "expected string"
                )
            ],
        ),
    ],
)
def test_replicas_and_selector(tree: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in PATHS.check_spec(tree) + PATHS.check_status(tree)] == expected
