from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB, rbac_policy
from kubevouch.api.rbac_v1 import (
    GROUP,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization import rbac
from kubevouch.authorization.interface import Attributes, Decision, Rule
from kubevouch.authorization.policy import Policy, path_rule, rule
from kubevouch.authorization.rbac import RBACAuthorizer, RBACCaches, RBACPolicy, RoleNotFoundError, follow, reload
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.objects import CacheEvent, Stored
from kubevouch.storage.watchcache.resource_cache import ResourceCache

ROBOT = UserInfo("system:serviceaccount:shop:robot", groups=("system:serviceaccounts", "system:serviceaccounts:shop"))
READS = rule("get", "", "secrets")


def cluster_role(name: str, *rules: PolicyRule) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name), rules=list(rules))


def role(name: str, *rules: PolicyRule, namespace: str = "shop") -> Role:
    return Role(metadata=ObjectMeta(name=name, namespace=namespace), rules=list(rules))


def ref(name: str, kind: str = "ClusterRole") -> RoleRef:
    return RoleRef(api_group=GROUP, kind=kind, name=name)


def everywhere(name: str, role_ref: RoleRef, *subjects: Subject) -> ClusterRoleBinding:
    return ClusterRoleBinding(metadata=ObjectMeta(name=name), subjects=list(subjects), role_ref=role_ref)


def within(name: str, role_ref: RoleRef, *subjects: Subject, namespace: str = "shop") -> RoleBinding:
    metadata = ObjectMeta(name=name, namespace=namespace)
    return RoleBinding(metadata=metadata, subjects=list(subjects), role_ref=role_ref)


def user(name: str = "bob") -> Subject:
    return Subject(kind="User", api_group=GROUP, name=name)


def group(name: str) -> Subject:
    return Subject(kind="Group", api_group=GROUP, name=name)


def account(namespace: str = "shop", name: str = "robot") -> Subject:
    return Subject(kind="ServiceAccount", name=name, namespace=namespace)


def asks(namespace: str = "shop", who: UserInfo = BOB, verb: str = "get", name: str = "") -> Attributes:
    return Attributes(who, verb, "", "v1", "secrets", namespace=namespace, name=name)


def policy(*objects: Any) -> RBACPolicy:
    indexed = RBACPolicy()
    for obj in objects:
        put = indexed.put_role if isinstance(obj, (Role, ClusterRole)) else indexed.put_binding
        put(obj)
    return indexed


def allows(indexed: RBACPolicy, attributes: Attributes) -> bool:
    return indexed.decide(attributes).decision is Decision.ALLOW


# ------------------------------------------------------------------ who is bound


@pytest.mark.parametrize(
    ("subject", "who", "bound"),
    [
        (user("bob"), BOB, True),
        (user("Bob"), BOB, False),
        (user("system:authenticated"), BOB, False),
        (user("*"), BOB, False),
        (user(""), BOB, False),
        (group("system:authenticated"), BOB, True),
        (group("system:auth*"), BOB, False),
        (group("bob"), BOB, False),
        (account(), ROBOT, True),
        (user(ROBOT.name), ROBOT, True),
        (group("system:serviceaccounts:shop"), ROBOT, True),
        (account("other"), ROBOT, False),
        (account("shop", "robo"), ROBOT, False),
        (Subject(kind="user", api_group=GROUP, name="bob"), BOB, False),
        (Subject(kind="Node", name="bob"), BOB, False),
    ],
)
def test_subject(subject: Subject, who: UserInfo, bound: bool) -> None:
    role_ref = ref("reader")
    assert allows(policy(cluster_role("reader", READS), everywhere("b", role_ref, subject)), asks(who=who)) is bound
    assert allows(policy(cluster_role("reader", READS), within("b", role_ref, subject)), asks(who=who)) is bound


def test_service_account_without_namespace_is_of_the_bindings_own() -> None:
    reader = cluster_role("reader", READS)
    assert allows(policy(reader, within("b", ref("reader"), account(""))), asks(who=ROBOT))
    assert not allows(policy(reader, within("b", ref("reader"), account(""), namespace="x")), asks("x", ROBOT))
    assert not allows(policy(reader, everywhere("b", ref("reader"), account(""))), asks(who=ROBOT))


# ------------------------------------------------------------------ where a binding counts


@pytest.mark.parametrize(
    ("objects", "namespace", "allowed"),
    [
        ((cluster_role("r", READS), everywhere("b", ref("r"), user())), "shop", True),
        ((cluster_role("r", READS), everywhere("b", ref("r"), user())), "", True),
        ((cluster_role("r", READS), within("b", ref("r"), user())), "shop", True),
        ((cluster_role("r", READS), within("b", ref("r"), user())), "other", False),
        ((cluster_role("r", READS), within("b", ref("r"), user())), "", False),
        ((role("r", READS), within("b", ref("r", "Role"), user())), "shop", True),
        ((role("r", READS), within("b", ref("r", "Role"), user())), "other", False),
        ((role("r", READS), within("b", ref("r", "Role"), user(), namespace="other")), "other", False),
        ((role("r", READS), within("b", ref("r", "ClusterRole"), user())), "shop", False),
        ((cluster_role("r", READS), within("b", ref("r", "Role"), user())), "shop", False),
        ((role("r", READS), everywhere("b", ref("r", "Role"), user())), "shop", False),
        ((cluster_role("r", READS),), "shop", False),
        ((everywhere("b", ref("r"), user()),), "shop", False),
        ((cluster_role("r", READS), everywhere("b", ref("r"))), "shop", False),
    ],
)
def test_scope(objects: tuple[Any, ...], namespace: str, allowed: bool) -> None:
    assert allows(policy(*objects), asks(namespace)) is allowed


def test_role_binding_opens_no_url() -> None:
    reader = cluster_role("r", path_rule("*"))
    asked = Attributes(BOB, "get", path="/metrics")
    assert not allows(policy(reader, within("b", ref("r"), user())), asked)
    assert allows(policy(reader, everywhere("b", ref("r"), user())), asked)


def test_a_role_is_not_the_cluster_role_of_its_name() -> None:
    indexed = policy(cluster_role("r"), role("r", READS), within("b", ref("r"), user()))
    assert not allows(indexed, asks())
    indexed.put_binding(within("c", ref("r", "Role"), user()))
    assert allows(indexed, asks())


# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    ("binding", "who", "reason"),
    [
        (
            everywhere("b", ref("r"), group("system:authenticated")),
            BOB,
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "system:authenticated"',
        ),
        (
            everywhere("b", ref("r"), group("x"), user(), group("system:authenticated")),
            BOB,
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "bob"',
        ),
        (
            within("b", ref("r", "Role"), account("")),
            ROBOT,
            'RBAC: allowed by RoleBinding "b/shop" of Role "r" to ServiceAccount "robot/shop"',
        ),
        (
            within("b", ref("r"), account(), namespace="other"),
            ROBOT,
            'RBAC: allowed by RoleBinding "b/other" of ClusterRole "r" to ServiceAccount "robot/shop"',
        ),
    ],
)
def test_reason_names_binding_role_and_subject(
    binding: RoleBinding | ClusterRoleBinding, who: UserInfo, reason: str
) -> None:
    indexed = policy(cluster_role("r", READS), role("r", READS), binding)
    assert indexed.decide(asks(binding.metadata.namespace or "any", who)).reason == reason


def test_plain_refusal_has_no_reason() -> None:
    assert policy().decide(asks()).reason == ""
    assert policy(cluster_role("r", READS), everywhere("b", ref("r"), user())).decide(asks(verb="list")).reason == ""


@pytest.mark.parametrize(
    ("bindings", "namespace", "reason"),
    [
        ([everywhere("b", ref("r"), user())], "shop", 'RBAC: clusterrole.rbac.authorization.k8s.io "r" not found'),
        ([within("b", ref("r", "Role"), user())], "shop", 'RBAC: role.rbac.authorization.k8s.io "r" not found'),
        ([within("b", ref("r", "Role"), user())], "other", ""),
        (
            [everywhere("b", ref("r"), user()), within("b", ref("s", "Role"), user())],
            "shop",
            (
                'RBAC: [clusterrole.rbac.authorization.k8s.io "r" not found, '
                'role.rbac.authorization.k8s.io "s" not found]'
            ),
        ),
        (
            [everywhere("a", ref("r"), user()), everywhere("b", ref("r"), user())],
            "",
            'RBAC: clusterrole.rbac.authorization.k8s.io "r" not found',
        ),
        ([everywhere("b", ref("r", "Group"), user())], "", 'RBAC: unsupported role reference kind: "Group"'),
        ([everywhere("b", ref("r"), user("alice"))], "shop", ""),
    ],
)
def test_missing_roles_are_told_to_whom_they_matter(bindings: list[Any], namespace: str, reason: str) -> None:
    verdict = policy(*bindings).decide(asks(namespace))
    assert (verdict.decision, verdict.reason) == (Decision.NO_OPINION, reason)


def test_missing_role_does_not_hide_one_that_allows() -> None:
    indexed = policy(
        cluster_role("r", READS), everywhere("a", ref("missing"), user()), everywhere("b", ref("r"), user())
    )
    assert allows(indexed, asks())


# ------------------------------------------------------------------ changes


def test_every_change_counts_at_once() -> None:
    indexed = RBACPolicy()
    steps: list[tuple[Any, Any, bool]] = [
        (indexed.put_role, cluster_role("r", READS), False),
        (indexed.put_binding, everywhere("b", ref("r"), user()), True),
        (indexed.put_binding, everywhere("b", ref("r"), user("alice")), False),
        (indexed.put_binding, everywhere("b", ref("r"), user("alice"), user()), True),
        (indexed.put_role, cluster_role("r", rule("list", "", "secrets")), False),
        (indexed.put_role, cluster_role("r", READS), True),
        (indexed.remove_role, cluster_role("r"), False),
        (indexed.remove_role, cluster_role("r"), False),
        (indexed.put_role, cluster_role("r", READS), True),
        (indexed.remove_role, role("r"), True),
        (indexed.remove_binding, within("b", ref("r")), True),
        (indexed.remove_binding, everywhere("b", ref("r")), False),
        (indexed.remove_binding, everywhere("b", ref("r")), False),
    ]
    for change, obj, allowed in steps:
        change(obj)
        assert allows(indexed, asks()) is allowed
        assert not allows(indexed, asks(who=UserInfo("eve")))


def test_clear_forgets_all() -> None:
    indexed = policy(cluster_role("r", READS), everywhere("b", ref("r"), user()))
    assert allows(indexed, asks())
    indexed.clear()
    assert not allows(indexed, asks())


def test_same_name_with_other_groups_is_somebody_else() -> None:
    indexed = policy(cluster_role("r", READS), everywhere("b", ref("r"), group("devs")))
    assert allows(indexed, asks(who=UserInfo("bob", groups=("devs",))))
    assert not allows(indexed, asks(who=UserInfo("bob")))


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "MAX_USERS", 3)
    monkeypatch.setattr(rbac, "MAX_DECISIONS", 2)
    indexed = policy(cluster_role("r", rule("get", "", "secrets", ["a"])), everywhere("b", ref("r"), group("all")))
    for number in range(10):
        who = UserInfo(f"user-{number}", groups=("all",))
        for name in "abcabc":
            assert allows(indexed, asks(who=who, name=name)) is (name == "a")
    assert len(indexed._users) == 3
    assert all(len(grants.decisions) <= 2 for grants in indexed._users.values())


# ------------------------------------------------------------------ what a user may do


@async_test
async def test_rules_of_a_user() -> None:
    reader = cluster_role("r", READS, rule("get", "", "nodes", ["n"]))
    both = PolicyRule(verbs=["get"], api_groups=[""], resources=["pods"], non_resource_urls=["/x"])
    indexed = policy(reader, cluster_role("both", both), role("own", rule("list", "", "pods")))
    indexed.put_binding(everywhere("a", ref("both"), user()))
    indexed.put_binding(within("b", ref("r"), user()))
    indexed.put_binding(within("c", ref("gone", "Role"), user()))
    indexed.put_binding(within("d", ref("r"), user(), namespace="other"))
    listed = await RBACAuthorizer(indexed).rules_for(BOB, "shop")
    whole = (Rule(("get",), ("",), ("pods",)), Rule(("get",), non_resource_urls=("/x",)))
    assert listed.rules == (*whole, Rule(("get",), ("",), ("secrets",)), Rule(("get",), ("",), ("nodes",), ("n",)))
    assert listed.error == 'role.rbac.authorization.k8s.io "gone" not found'
    assert (await RBACAuthorizer(indexed).rules_for(BOB, "")).rules == whole
    assert (await RBACAuthorizer(indexed).rules_for(UserInfo("eve"), "shop")).rules == ()


def test_rules_of_a_role() -> None:
    indexed = rbac_policy(Policy(cluster_roles=(cluster_role("r", READS),), roles=(role("r"),)))
    assert indexed.role_rules(ref("r"), "").rules == (READS,)
    assert indexed.role_rules(ref("r"), "shop").rules == (READS,)
    assert indexed.role_rules(ref("r", "Role"), "shop").rules == ()
    for role_ref, namespace in ((ref("r", "Role"), ""), (ref("r", "Role"), "other"), (ref("r", "Thing"), "shop")):
        with pytest.raises(RoleNotFoundError) as caught:
            indexed.role_rules(role_ref, namespace)
        assert caught.value.role_ref is role_ref


# ------------------------------------------------------------------ in step with the store


def stored(obj: Any, revision: int = 1) -> Stored[Any]:
    return Stored(f"/{obj.metadata.namespace}/{obj.metadata.name}", obj, Revision(revision), b"")


def test_policy_follows_the_caches() -> None:
    caches = RBACCaches(*(ResourceCache("/") for _ in range(4)))
    reader, binding = stored(cluster_role("r", READS)), stored(everywhere("b", ref("r"), user()))
    caches.cluster_roles.load([reader], Revision(1))
    indexed = policy(role("left-over"), everywhere("left-over", ref("r"), user()))
    follow(indexed, caches)
    assert not allows(indexed, asks())
    caches.cluster_role_bindings.apply(CacheEvent(Revision(2), binding, None))
    assert allows(indexed, asks())
    changed = stored(everywhere("b", ref("r"), user("alice")), 3)
    caches.cluster_role_bindings.apply(CacheEvent(Revision(3), changed, binding))
    assert not allows(indexed, asks())
    own, bound = stored(role("own", READS)), stored(within("own", ref("own", "Role"), user()))
    caches.roles.apply(CacheEvent(Revision(4), own, None))
    caches.role_bindings.apply(CacheEvent(Revision(5), bound, None))
    assert allows(indexed, asks())
    caches.roles.apply(CacheEvent(Revision(6), None, own))
    assert indexed.decide(asks()).reason == 'RBAC: role.rbac.authorization.k8s.io "own" not found'
    caches.role_bindings.apply(CacheEvent(Revision(7), None, bound))
    assert indexed.decide(asks()).reason == ""


def test_policy_is_filled_anew_after_a_load_without_events() -> None:
    caches = RBACCaches(*(ResourceCache("/") for _ in range(4)))
    indexed = policy(cluster_role("r", READS), everywhere("b", ref("r"), user()))
    reload(indexed, caches)
    assert not allows(indexed, asks())
    caches.roles.load([stored(role("own", READS))], Revision(9))
    caches.role_bindings.load([stored(within("own", ref("own", "Role"), user()))], Revision(9))
    reload(indexed, caches)
    assert allows(indexed, asks())


def test_a_decision_is_about_the_whole_question() -> None:
    """Each is asked twice: what is remembered of one must not answer another."""
    allowed = [
        Attributes(BOB, "get", "", "v1", "pods", "log", "shop", "one"),
        Attributes(BOB, "get", path="/metrics"),
    ]
    others = [
        Attributes(BOB, "get", "", "v1", "pods", "", "shop", "one"),
        Attributes(BOB, "get", "", "v1", "pods", "exec", "shop", "one"),
        Attributes(BOB, "list", "", "v1", "pods", "log", "shop", "one"),
        Attributes(BOB, "get", "apps", "v1", "pods", "log", "shop", "one"),
        Attributes(BOB, "get", "", "v1", "pods", "log", "shop", "two"),
        Attributes(BOB, "get", "", "v1", "pods", "log", "home", "one"),
        Attributes(BOB, "get", path="/debug"),
        Attributes(BOB, "post", path="/metrics"),
    ]
    indexed = policy(
        role("logs", rule("get", "", "pods/log", ["one"])), within("logs", ref("logs", "Role"), user()),
        cluster_role("metrics", path_rule("/metrics")), everywhere("metrics", ref("metrics"), user()),
    )  # fmt: skip
    for _ in range(2):
        assert [indexed.decide(each).decision for each in allowed] == [Decision.ALLOW] * 2
        assert [indexed.decide(each).decision for each in others] == [Decision.NO_OPINION] * 8


def test_a_subject_of_another_kind_is_nobody() -> None:
    stranger = Subject(kind="Robot", name="robot", namespace="shop")
    indexed = policy(cluster_role("r", READS), everywhere("b", ref("r"), stranger), within("w", ref("r"), stranger))
    assert indexed.decide(asks(who=ROBOT)).decision is Decision.NO_OPINION
