"""struct_compare.py: what it says of two structs is what typed_tree.compare says of their trees."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevouch.api.catalog import SCHEME
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import Object
from kubevouch.machinery.schema import schema_of
from kubevouch.machinery.writing import field_set, struct_compare, typed_tree
from property.strategies import struct_strategy

NEVER_OWNED = field_set.of_paths(*(("metadata", name) for name in struct_compare.NEVER_OWNED))
# Maps, sets and lists with keys; lists written as a whole. Pods, which nobody writes here, differ in one place:
# the key of a pull secret without a name is null to the trees.
KINDS = {"ConfigMap", "Node", "ClusterRoleBinding"}
STRUCTS = {struct.__name__: struct for struct in SCHEME.kinds.values() if struct.__name__ in KINDS}


def _owned(fields: field_set.FieldSet) -> set[tuple[str, ...]]:
    return set(field_set.paths(field_set.difference(fields, NEVER_OWNED)))


@st.composite
def pairs(draw: Any, struct: type[Object]) -> tuple[Object, Object]:
    """Two that share some of their fields, as before and after a write do."""
    old, other = draw(struct_strategy(struct)), draw(struct_strategy(struct))
    taken = draw(st.sets(st.sampled_from([each.attribute for each in schema_of(struct).fields])))
    return old, msgspec.structs.replace(old, **{name: getattr(other, name) for name in taken if hasattr(other, name)})


@pytest.mark.parametrize("name", sorted(KINDS))
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_as_the_trees(name: str, data: st.DataObject) -> None:
    struct = STRUCTS[name]
    old, new = data.draw(pairs(struct))
    kind = typed_tree.merge_type(schema_of(struct))
    trees = typed_tree.compare(json_codec.to_builtins(old), json_codec.to_builtins(new), kind)
    changed, removed = struct_compare.compare(old, new)
    assert (_owned(changed), _owned(removed)) == (_owned(trees.changed), _owned(trees.removed))


def test_an_item_that_went_is_removed_not_changed() -> None:
    kind = typed_tree.merge_type(schema_of(STRUCTS["ConfigMap"]))
    difference = typed_tree.compare({"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["a"]}}, kind)
    assert (set(field_set.paths(difference.changed)), set(field_set.paths(difference.removed))) == (
        set(),
        {("f:metadata", "f:finalizers", 'v:"b"')},
    )
