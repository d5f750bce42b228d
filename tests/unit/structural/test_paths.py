"""Paths of columns, scale and selectable fields."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural import paths
from kubevouch.structural.paths import PathError

TREE = {
    "spec": {"replicas": 2, "a.b": 1, "list": ["x", "y", "z"], "empty": []},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Synced", "status": "False", "n": 2},
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [2]),
        ("spec.replicas", [2]),
        (".spec['a.b']", [1]),
        (r".spec.a\.b", [1]),
        (".spec.list[0]", ["x"]),
        (".spec.list[-1]", ["z"]),
        (".spec.list[-1:]", ["z"]),
        (".spec.list[0:2]", ["x", "y"]),
        (".spec.list[::2]", ["x", "z"]),
        (".spec.list[0,2]", ["x", "z"]),
        (".spec.list[*]", ["x", "y", "z"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Synced')].n", [2]),
        (".status.conditions[?(@.n>1)].type", ["Synced"]),
        (".status.conditions[?(@.none)].type", []),
        (".status.conditions[*].type", ["Ready", "Synced"]),
        (".status..type", ["Ready", "Synced"]),
        (".spec.nothing.below", []),
        (".spec.empty[0]", []),
        (".spec.list[7]", []),
    ],
)
def test_a_path_finds(path: str, found: list[Any]) -> None:
    parsed = paths.parse(path)
    assert list(parsed.all(TREE, paths.Budget())) == found
    assert parsed.first(TREE, paths.Budget()) == tuple(found[:1])


@pytest.mark.parametrize(
    "path", [".." + "..".join("x" * 8) + "..y", ".list[?(@..x..x..x..x..y)]", ".list[*].list[*]..x..y"]
)
def test_a_path_that_could_take_for_ever_ends(path: str) -> None:
    tree: dict[str, Any] = {"z": 1}
    for _ in range(120):
        tree = {"x": tree}
    assert paths.parse(path).first({"x": tree, "list": [tree] * 200}, paths.Budget()) == ()


@pytest.mark.parametrize(
    "path", [".spec[", ".spec[x]", ".spec[]", ".a b", ".spec[?(@.x=~1)]", ".x" * 200, ".spec['a]", ".a[1]]", "{.a}"]
)
def test_a_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        paths.parse(path)


def test_a_value_is_put_where_nothing_was() -> None:
    tree: dict[str, Any] = {"spec": {"a": 1}}
    assert paths.with_value(tree, paths.names(".spec.b.c"), 2) == {"spec": {"a": 1, "b": {"c": 2}}}
    assert tree == {"spec": {"a": 1}}
    assert paths.value_at(tree, ("spec", "a")) == 1
    assert paths.value_at(tree, ("spec", "a", "b")) is None
