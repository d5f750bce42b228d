"""Which part was which, and what did not change."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.structural.correlation import Correlated, Ratchet, items_by_key
from kubevouch.structural.schema import compile_schema

TEXT = {"type": "string"}
KEYED = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": TEXT, "v": TEXT}},
}  # fmt: skip
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "a": TEXT, "apiVersion": TEXT, "keyed": KEYED, "plain": {"type": "array", "items": TEXT},
            "map": {"type": "object", "additionalProperties": TEXT},
        },
    }
)  # fmt: skip


def root(new: Any, old: Any) -> Ratchet:
    return Ratchet(Correlated(new, old, SCHEMA))


def test_what_did_not_change_may_stay() -> None:
    new, old = {"a": "x", "map": {"m": "1", "n": "2"}}, {"a": "x", "map": {"m": "1", "n": "3"}}
    assert not root(new, old).keeps
    assert root(new, old).key("a").keeps
    assert not root(new, old).key("map").keeps
    assert root(new, old).key("map").key("m").keeps
    assert not root(new, old).key("map").key("n").keeps
    assert not root(new, old).key("map").key("gone").keeps
    assert not Ratchet(None).keeps


def test_items_of_maps_are_known_by_their_keys() -> None:
    new = {"keyed": [{"k": "b", "v": "1"}, {"k": "a", "v": "2"}]}
    old = {"keyed": [{"k": "a", "v": "2"}, {"k": "b", "v": "x"}]}
    items = root(new, old).key("keyed")
    assert not items.index(0).keeps
    assert items.index(0).key("k").keeps
    assert items.index(1).keeps
    old["keyed"][1]["v"] = "1"
    assert root(new, old).keeps


def test_items_of_other_lists_are_kept_only_with_the_list() -> None:
    assert root({"plain": ["x"]}, {"plain": ["x"]}).key("plain").index(0).keeps
    items = root({"plain": ["x", "y"]}, {"plain": ["x"]}).key("plain")
    assert not items.index(0).keeps
    assert not items.index(0).index(0).key("a").keeps


def test_the_version_is_never_what_it_was() -> None:
    new = {"apiVersion": "v1"}
    assert not root(new, dict(new)).key("apiVersion").keeps


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"keyed": "x"}, {"keyed": [{"k": "a"}]}),
        ({"keyed": [{"k": "a"}]}, {"keyed": [{"k": "b"}]}),
        ({"keyed": ["a"]}, {"keyed": ["b"]}),
        ({"map": "x"}, {"map": {}}),
        ({"unknown": 1}, {"unknown": 2}),
        ({"a": True}, {"a": 1}),
        ([], {}),
    ],
)
def test_what_changed(new: Any, old: Any) -> None:
    assert not root(new, old).keeps
    assert not root(new, old).key("keyed").index(0).keeps


def test_members_that_no_schema_knows_count() -> None:
    assert root({"unknown": {"a": [1]}}, {"unknown": {"a": [1]}}).keeps


def test_keys_of_any_type() -> None:
    schema = compile_schema(KEYED)
    found = items_by_key(schema, [{"k": True}, {"k": 1}, {"k": [1]}, {}, {"k": 1, "v": "second"}, "none"])
    assert len(found) == 4
    assert items_by_key(schema, "x") == {}
