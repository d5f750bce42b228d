from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding
from kubevouch.authorization.policy import (
    aggregated_cluster_role,
    cluster_role,
    cluster_role_binding,
    group,
    namespaced_role,
    role_binding,
    rule,
    user,
)
from kubevouch.authorization.reconcile import Operation, reconcile_binding, reconcile_role
from kubevouch.machinery.meta import replace_metadata

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
GETS, LISTS = rule("get", "", "pods"), rule("list", "", "pods")
SHIPPED = cluster_role("r", rule("get list", "", "pods"))


def stored(obj: Any, **metadata: Any) -> Any:
    """As the API server would give it back."""
    return replace_metadata(obj, uid="7", resource_version="42", **metadata)


@pytest.mark.parametrize("shipped", [SHIPPED, namespaced_role("kube-system", "r", GETS)])
def test_missing_role_is_created(shipped: Any) -> None:
    result = reconcile_role(None, shipped)
    assert (result.operation, result.obj) == (Operation.CREATE, shipped)


@pytest.mark.parametrize(
    ("rules", "operation", "after"),
    [
        ([rule("get list", "", "pods")], Operation.NONE, [rule("get list", "", "pods")]),
        ([LISTS, GETS], Operation.NONE, [LISTS, GETS]),
        ([rule("*", "*", "*")], Operation.NONE, [rule("*", "*", "*")]),
        ([GETS], Operation.UPDATE, [GETS, LISTS]),
        ([rule("get", "", "nodes")], Operation.UPDATE, [rule("get", "", "nodes"), GETS, LISTS]),
        ([], Operation.UPDATE, [GETS, LISTS]),
    ],
)
def test_missing_rules_are_added_and_others_stay(rules: list[Any], operation: Operation, after: list[Any]) -> None:
    result = reconcile_role(stored(cluster_role("r", *rules)), SHIPPED)
    assert (result.operation, result.obj.rules) == (operation, after)
    assert result.obj.metadata.resource_version == "42"
    again = reconcile_role(result.obj, SHIPPED)
    assert again.operation is Operation.NONE


@pytest.mark.parametrize(
    ("value", "operation"), [("false", Operation.NONE), ("true", Operation.UPDATE), ("False", Operation.UPDATE)]
)
def test_who_says_no_is_left_alone(value: str, operation: Operation) -> None:
    role = stored(cluster_role("r"), annotations={AUTOUPDATE: value})
    assert reconcile_role(role, SHIPPED).operation is operation
    binding = stored(cluster_role_binding("r"), annotations={AUTOUPDATE: value})
    assert reconcile_binding(binding, cluster_role_binding("r", user("a"))).operation is operation


def test_protected_binding_of_another_role_is_not_made_anew() -> None:
    binding = stored(cluster_role_binding("r", role="other"), annotations={AUTOUPDATE: "false"})
    result = reconcile_binding(binding, cluster_role_binding("r", user("a")))
    assert (result.operation, result.obj) == (Operation.NONE, binding)


def test_labels_and_annotations_are_added_and_changed_values_stay() -> None:
    role = stored(SHIPPED, labels={"kubernetes.io/bootstrapping": "mine"}, annotations={"note": "x"})
    result = reconcile_role(role, SHIPPED)
    assert result.operation is Operation.UPDATE
    assert result.obj.metadata.labels == {"kubernetes.io/bootstrapping": "mine"}
    assert result.obj.metadata.annotations == {"note": "x", AUTOUPDATE: "true"}


def selectors(role: ClusterRole) -> list[dict[str, str]] | None:
    if role.aggregation_rule is None:
        return None
    return [selector.match_labels for selector in role.aggregation_rule.cluster_role_selectors]


@pytest.mark.parametrize(
    ("before", "shipped", "operation", "after"),
    [
        (aggregated_cluster_role("r", "a"), aggregated_cluster_role("r", "a"), Operation.NONE, [{"a": "true"}]),
        (
            aggregated_cluster_role("r", "mine"),
            aggregated_cluster_role("r", "a"),
            Operation.UPDATE,
            [{"mine": "true"}, {"a": "true"}],
        ),
        (cluster_role("r"), aggregated_cluster_role("r", "a"), Operation.UPDATE, [{"a": "true"}]),
        (aggregated_cluster_role("r", "a"), cluster_role("r"), Operation.UPDATE, None),
    ],
)
def test_aggregation(before: ClusterRole, shipped: ClusterRole, operation: Operation, after: object) -> None:
    result = reconcile_role(stored(before), shipped)
    assert (result.operation, selectors(result.obj)) == (operation, after)


@pytest.mark.parametrize(
    ("before", "operation", "subjects"),
    [
        (cluster_role_binding("b", user("a"), group("g")), Operation.NONE, [user("a"), group("g")]),
        (cluster_role_binding("b", group("g"), user("a")), Operation.NONE, [group("g"), user("a")]),
        (cluster_role_binding("b", group("mine"), user("a")), Operation.UPDATE, [group("mine"), user("a"), group("g")]),
        (cluster_role_binding("b"), Operation.UPDATE, [user("a"), group("g")]),
        (
            cluster_role_binding("b", user("g"), group("a")),
            Operation.UPDATE,
            [user("g"), group("a"), user("a"), group("g")],
        ),
    ],
)
def test_missing_subjects_are_added_and_others_stay(
    before: ClusterRoleBinding, operation: Operation, subjects: list[Any]
) -> None:
    shipped = cluster_role_binding("b", user("a"), group("g"))
    result = reconcile_binding(stored(before), shipped)
    assert (result.operation, result.obj.subjects) == (operation, subjects)
    assert result.obj.metadata.resource_version == "42"


def test_binding_of_another_role_is_made_anew() -> None:
    shipped = role_binding("kube-system", "b", user("a"))
    other = stored(role_binding("kube-system", "b", user("a"), role="other"))
    result = reconcile_binding(other, shipped)
    assert (result.operation, result.obj) == (Operation.RECREATE, shipped)
    assert reconcile_binding(None, shipped).operation is Operation.CREATE
    kind = msgspec.structs.replace(shipped.role_ref, kind="ClusterRole")
    assert reconcile_binding(stored(msgspec.structs.replace(shipped, role_ref=kind)), shipped).operation is (
        Operation.RECREATE
    )
