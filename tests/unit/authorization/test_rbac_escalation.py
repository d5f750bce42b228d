from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, rbac_policy
from kubevouch.api.rbac_v1 import (
    GROUP,
    MAX_COMBINATIONS,
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.policy import (
    Policy,
    cluster_role,
    cluster_role_binding,
    namespaced_role,
    path_rule,
    role_binding,
    rule,
)
from kubevouch.authorization.policy import group as group_subject
from kubevouch.authorization.policy import user as user_subject
from kubevouch.authorization.rbac import RBACAuthorizer
from kubevouch.authorization.rbac_escalation import EscalationGuard, only_lifecycle_changes
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import LabelSelector, ManagedFieldsEntry, ObjectMeta, OwnerReference, replace_metadata

MASTER = UserInfo("root", groups=("system:masters",))
READS = rule("get", "", "secrets")
RBAC_GROUP = "rbac.authorization.k8s.io"
WHO = 'user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
OTHERS = Policy(
    cluster_roles=(cluster_role("reads", READS), cluster_role("all", rule("*", "*", "*"), path_rule("*"))),
    roles=(namespaced_role("shop", "reads", READS),),
)


def guard(*held: PolicyRule, namespace: str = "", missing: str = "") -> EscalationGuard:
    """Bob holds these rules, cluster-wide or in one namespace, and perhaps a role that does not exist."""
    policy = OTHERS
    if namespace:
        policy += Policy(
            roles=(namespaced_role(namespace, "held", *held),),
            role_bindings=(role_binding(namespace, "held", user_subject("bob")),),
        )
    else:
        policy += Policy((cluster_role("held", *held),), (cluster_role_binding("held", user_subject("bob")),))
    if missing:
        policy += Policy(cluster_role_bindings=(cluster_role_binding(missing, user_subject("bob")),))
    indexed = rbac_policy(policy)
    return EscalationGuard(indexed, RBACAuthorizer(indexed))


def new_cluster_role(*rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name="new"), rules=list(rules))


def new_role(*rules: PolicyRule, namespace: str = "shop") -> Role:
    return Role(metadata=ObjectMeta(name="new", namespace=namespace), rules=list(rules))


async def refusal_of_role(
    checks: EscalationGuard, role: Role | ClusterRole, old: Role | ClusterRole | None = None, user: UserInfo = BOB
) -> str:
    try:
        await checks.check_role(user, role, old)
    except APIStatusError as err:
        return f"{err.code} {err.status.message}"
    return ""


# ------------------------------------------------------------------ roles


@pytest.mark.parametrize(
    ("checks", "allowed"),
    [
        (guard(READS), True),
        (guard(rule("*", "*", "*")), True),
        (guard(READS, namespace="shop"), True),
        (guard(READS, namespace="other"), False),
        (guard(rule("get", "", "secrets", ["a"])), False),
        (guard(rule("list", "", "secrets")), False),
        (guard(rule("escalate", RBAC_GROUP, "roles")), True),
        (guard(rule("escalate", RBAC_GROUP, "roles"), namespace="shop"), True),
        (guard(rule("escalate", RBAC_GROUP, "clusterroles")), False),
        (guard(rule("escalate", RBAC_GROUP, "roles", ["new"])), False),
        (guard(rule("bind", RBAC_GROUP, "roles")), False),
        (guard(), False),
    ],
)
@async_test
async def test_role_grants_no_more_than_its_author_holds(checks: EscalationGuard, allowed: bool) -> None:
    refused = (
        f'403 roles.rbac.authorization.k8s.io "new" is forbidden: {WHO}'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )
    assert await refusal_of_role(checks, new_role(READS)) == ("" if allowed else refused)


@async_test
async def test_what_is_missing_is_listed_compactly() -> None:
    wanted = new_cluster_role(rule("get list", "", "nodes"), READS, path_rule("/metrics"))
    assert await refusal_of_role(guard(READS, missing="gone"), wanted) == (
        f'403 clusterroles.rbac.authorization.k8s.io "new" is forbidden: {WHO}'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
        '; resolution errors: [clusterrole.rbac.authorization.k8s.io "gone" not found]'
    )


@async_test
async def test_more_rights_than_are_compared() -> None:
    many = rule(" ".join(f"v{number}" for number in range(MAX_COMBINATIONS + 1)), "", "nodes")
    checks = guard(READS)
    for role in (new_cluster_role(many), new_role(many)):
        refused = await refusal_of_role(checks, role)
        kind = type(role).__name__
        assert refused.startswith(f'422 {kind}.rbac.authorization.k8s.io "new" is invalid: rules: Too many: ')
    assert await refusal_of_role(guard(rule("escalate", RBAC_GROUP, "roles")), new_role(many)) == ""


@async_test
async def test_empty_role_and_masters_need_nothing() -> None:
    assert await refusal_of_role(guard(), new_cluster_role()) == ""
    assert await refusal_of_role(guard(), new_cluster_role(rule("*", "*", "*")), user=MASTER) == ""


@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        (rule("escalate", RBAC_GROUP, "clusterroles", ["new"]), True),
        (rule("escalate", RBAC_GROUP, "clusterroles", ["old"]), False),
        (rule("escalate", RBAC_GROUP, "roles"), False),
    ],
)
@async_test
async def test_update_names_the_object(held: PolicyRule, allowed: bool) -> None:
    refused = await refusal_of_role(guard(held), new_cluster_role(READS), new_cluster_role())
    assert (refused == "") is allowed


@async_test
async def test_update_is_judged_by_all_its_rules() -> None:
    old = new_cluster_role(READS, rule("get", "", "nodes"))
    removed = new_cluster_role(READS)
    labelled: ClusterRole = replace_metadata(old, labels={"a": "b"})
    assert "attempting to grant" in await refusal_of_role(guard(), removed, old)
    assert "attempting to grant" in await refusal_of_role(guard(), labelled, old)
    owned: ClusterRole = replace_metadata(old, finalizers=["x"])
    assert await refusal_of_role(guard(), owned, old) == ""


def aggregating(role: ClusterRole) -> ClusterRole:
    rules = AggregationRule(cluster_role_selectors=[LabelSelector(match_labels={"a": "b"})])
    return msgspec.structs.replace(role, aggregation_rule=rules)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (aggregating(new_cluster_role(READS)), None),
        (aggregating(new_cluster_role(READS)), new_cluster_role()),
        (new_cluster_role(READS), aggregating(new_cluster_role(READS))),
    ],
)
@async_test
async def test_aggregation_is_for_cluster_admins(new: ClusterRole, old: ClusterRole | None) -> None:
    refused = (
        '403 clusterroles.rbac.authorization.k8s.io "new" is forbidden: '
        "must have cluster-admin privileges to use the aggregationRule"
    )
    everything_but_escalate = rule("create delete get list patch update watch", "*", "*")
    assert await refusal_of_role(guard(READS), new, old) == refused
    assert await refusal_of_role(guard(everything_but_escalate, path_rule("*")), new, old) == refused
    assert await refusal_of_role(guard(rule("*", "*", "*")), new, old) == ""
    assert await refusal_of_role(guard(rule("escalate", RBAC_GROUP, "clusterroles")), new, old) == ""


# ------------------------------------------------------------------ bindings


def binds(name: str, kind: str = "ClusterRole", namespace: str = "") -> RoleBinding | ClusterRoleBinding:
    metadata = ObjectMeta(name="new", namespace=namespace)
    subjects, role_ref = [group_subject("eve")], RoleRef(api_group=GROUP, kind=kind, name=name)
    if namespace:
        return RoleBinding(metadata=metadata, subjects=subjects, role_ref=role_ref)
    return ClusterRoleBinding(metadata=metadata, subjects=subjects, role_ref=role_ref)


async def refusal_of_binding(
    checks: EscalationGuard,
    binding: RoleBinding | ClusterRoleBinding,
    old: RoleBinding | ClusterRoleBinding | None = None,
    user: UserInfo = BOB,
) -> str:
    try:
        await checks.check_binding(user, binding, old)
    except APIStatusError as err:
        return f"{err.code} {err.status.message}"
    return ""


@pytest.mark.parametrize(
    ("checks", "binding", "allowed"),
    [
        (guard(READS), binds("reads"), True),
        (guard(), binds("reads"), False),
        (guard(READS, namespace="shop"), binds("reads"), False),
        (guard(READS, namespace="shop"), binds("reads", namespace="shop"), True),
        (guard(READS, namespace="shop"), binds("reads", namespace="other"), False),
        (guard(READS, namespace="shop"), binds("reads", "Role", "shop"), True),
        (guard(rule("bind", RBAC_GROUP, "clusterroles")), binds("all"), True),
        (guard(rule("bind", RBAC_GROUP, "clusterroles", ["reads"])), binds("reads"), True),
        (guard(rule("bind", RBAC_GROUP, "clusterroles", ["reads"])), binds("all"), False),
        (guard(rule("bind", RBAC_GROUP, "roles")), binds("reads"), False),
        (guard(rule("bind", RBAC_GROUP, "roles")), binds("reads", "Role", "shop"), True),
        (guard(rule("bind", RBAC_GROUP, "clusterroles")), binds("reads", "Role", "shop"), False),
        (guard(rule("bind", RBAC_GROUP, "clusterroles"), namespace="shop"), binds("all", namespace="shop"), True),
        (guard(rule("bind", RBAC_GROUP, "clusterroles"), namespace="shop"), binds("all"), False),
        (guard(rule("escalate", RBAC_GROUP, "clusterroles")), binds("all"), False),
    ],
)
@async_test
async def test_binding_grants_no_more_than_its_author_holds(
    checks: EscalationGuard, binding: RoleBinding | ClusterRoleBinding, allowed: bool
) -> None:
    refused = await refusal_of_binding(checks, binding)
    resource = "rolebindings" if binding.metadata.namespace else "clusterrolebindings"
    expected = f'403 {resource}.rbac.authorization.k8s.io "new" is forbidden: {WHO}'
    assert refused == "" if allowed else refused.startswith(expected)


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (binds("gone"), '404 clusterrolebindings.rbac.authorization.k8s.io "gone" not found'),
        (binds("gone", "Role", "shop"), '404 rolebindings.rbac.authorization.k8s.io "gone" not found'),
        (binds("reads", "Role", "other"), '404 rolebindings.rbac.authorization.k8s.io "reads" not found'),
        (binds("reads", "Thing"), '500 unsupported role reference kind: "Thing"'),
    ],
)
@async_test
async def test_role_that_does_not_exist(binding: RoleBinding | ClusterRoleBinding, message: str) -> None:
    assert await refusal_of_binding(guard(), binding) == message
    assert await refusal_of_binding(guard(), binding, user=MASTER) == ""


@async_test
async def test_right_to_bind_holds_for_roles_that_do_not_exist_yet() -> None:
    assert await refusal_of_binding(guard(rule("bind", RBAC_GROUP, "clusterroles")), binds("gone")) == ""


@async_test
async def test_update_of_a_binding() -> None:
    old = binds("all")
    assert isinstance(old, ClusterRoleBinding)
    collected: ClusterRoleBinding = replace_metadata(old, finalizers=["x"])
    assert await refusal_of_binding(guard(), collected, old) == ""
    more = msgspec.structs.replace(old, subjects=[*old.subjects, user_subject("bob")])
    assert "attempting to grant" in await refusal_of_binding(guard(), more, old)


@pytest.mark.parametrize(
    ("changes", "is_lifecycle"),
    [
        ({}, True),
        ({"finalizers": ["x"]}, True),
        ({"owner_references": [OwnerReference(api_version="v1", kind="Node", name="n", uid="1")]}, True),
        ({"managed_fields": [ManagedFieldsEntry(manager="m")]}, True),
        ({"labels": {"a": "b"}}, False),
        ({"annotations": {"a": "b"}}, False),
        ({"finalizers": ["x"], "labels": {"a": "b"}}, False),
    ],
)
def test_only_lifecycle_changes(changes: dict[str, object], is_lifecycle: bool) -> None:
    old = new_role(READS)
    assert only_lifecycle_changes(replace_metadata(old, **changes), old) is is_lifecycle
    assert not only_lifecycle_changes(new_role(), old)
