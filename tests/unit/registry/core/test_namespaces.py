"""Namespace: three ways of writing it, and when it may go."""

from __future__ import annotations

import pytest

from kubevouch.api.core_v1 import Namespace
from kubevouch.registry.core import namespaces
from kubevouch.registry.interface import ALL_VERBS
from unit.registry.core.objects import CONTEXT, read


def test_a_namespace_starts_active_with_its_finalizer() -> None:
    made = namespaces.DEFINITION.strategy.prepare_for_create(
        CONTEXT, read(Namespace, spec={"finalizers": ["example.com/mine"]}, status={"phase": "Terminating"})
    )
    assert made.spec.finalizers == ["example.com/mine", "kubernetes"]
    assert made.status.phase == "Active"
    assert made.metadata.labels == {"kubernetes.io/metadata.name": "a"}
    again = namespaces.DEFINITION.strategy.prepare_for_create(CONTEXT, made)
    assert again.spec.finalizers == ["example.com/mine", "kubernetes"]


OLD = read(Namespace, spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"})
NEW = read(Namespace, metadata={"annotations": {"x": "y"}}, spec={"finalizers": []}, status={"phase": "Terminating"})


@pytest.mark.parametrize(
    ("subresource", "finalizers", "phase"),
    [("", ["kubernetes"], "Active"), ("status", ["kubernetes"], "Terminating"), ("finalize", [], "Active")],
)
def test_each_way_writes_its_part_of_a_namespace(subresource: str, finalizers: list[str], phase: str) -> None:
    found = namespaces.DEFINITION.subresource(subresource)
    strategy = namespaces.DEFINITION.strategy if found is None else found.strategy
    got = strategy.prepare_for_update(CONTEXT, NEW, OLD)
    assert (got.spec.finalizers, got.status.phase) == (finalizers, phase)
    assert got.metadata.annotations == {"x": "y"}


def test_a_namespace_stays_while_it_has_finalizers_and_is_terminating_meanwhile() -> None:
    strategy = namespaces.DEFINITION.strategy
    assert not strategy.may_remove(OLD)
    assert strategy.may_remove(NEW)
    assert strategy.prepare_for_delete(CONTEXT, OLD).status.phase == "Terminating"


def test_namespaces_have_no_delete_collection() -> None:
    assert set(ALL_VERBS) - set(namespaces.DEFINITION.verbs) == {"deletecollection"}
    fields = namespaces.DEFINITION.selectable_fields
    assert {name: get(OLD) for name, get in fields.items()} == {"status.phase": "Active", "name": "a"}
