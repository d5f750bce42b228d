"""Owners in other versions of a kind, whose fields have other names: what a write changes as they see it.

Source: sigs.k8s.io/structured-merge-diff/v6 merge/update.go, which converts objects, never field sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.writing import field_set, typed_tree
from kubevouch.machinery.writing.field_set import FieldSet

Tree = dict[str, Any]


class Foreign(NamedTuple):
    """Another version of a kind, and the ways to its objects and back."""

    resource: Resource[Any]
    there: Callable[[Any], Any]
    back: Callable[[Any], Any]


class Change(NamedTuple):
    """The fields that a write sets, and those that it removes."""

    changed: FieldSet
    removed: FieldSet


Changes = Callable[[str], Change | None]
"""By apiVersion; None for a version that is gone, whose owners lose everything."""


def change(before: Any, after: Any, resource: Resource[Any], reset: FieldSet = field_set.EMPTY) -> Change:
    """What differs between two objects, but for what is below ``reset``."""
    changed, removed = resource.codec.compare(before, after)
    return Change(field_set.without(changed, reset), field_set.without(removed, reset))


def tree_of(obj: Any, resource: Resource[Any]) -> Tree:
    """The JSON tree in which fields are merged."""
    tree = resource.codec.to_tree(obj)
    tree["metadata"].pop("managedFields", None)
    return tree | {"kind": resource.kind, "apiVersion": resource.api_version}


def object_of(tree: Tree, resource: Resource[Any]) -> Any:
    """The object of a tree. Raises ``json_codec.UnmarshalError``."""
    return resource.codec.bare(resource.codec.from_tree(tree).value)


class Pruning:
    """Takes out of an applied object what was applied before and is no longer, unless somebody else owns it.

    Args:
        resource: in which version it happens: that of the apply before.
    """

    def __init__(self, resource: Resource[Any], merged: Tree) -> None:
        self._type = resource.codec.merge_type
        self._merged = merged

    def _named(self, fields: FieldSet) -> FieldSet:
        return typed_tree.with_named_fields(fields, self._type)

    def _present(self, tree: Any) -> FieldSet:
        return self._named(typed_tree.to_set(tree, self._type))

    def _without(self, gone: FieldSet) -> Tree:
        return typed_tree.remove(self._merged, gone, self._type) or {}

    def take_out(self, last: FieldSet) -> Tree:
        """All that was applied."""
        return self._without(self._named(last))

    def add_back_owned(self, pruned: Tree, owned: FieldSet) -> Tree:
        """What owners in this version keep."""
        kept = field_set.union(self._present(pruned), self._named(owned))
        return self._without(field_set.difference(self._present(self._merged), kept))

    def add_back_dangling(self, pruned: Tree, last: FieldSet) -> Tree:
        """Nothing may go that this manager did not own, however it hangs together with what goes."""
        gone = field_set.difference(self._present(self._merged), self._present(pruned))
        return self._without(field_set.intersection(gone, self._named(last)))
