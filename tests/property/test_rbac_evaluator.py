"""The indexed evaluator answers as one that walks over every binding, whatever is changed in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.rbac import RBACPolicy
from property.rbac_strategies import (
    cluster_role_bindings,
    cluster_roles,
    requests,
    role_bindings,
    roles,
    rule_allows,
)

Change = tuple[bool, Role | ClusterRole | RoleBinding | ClusterRoleBinding]

changes = st.lists(
    st.tuples(
        st.sampled_from((True, True, True, False)),
        st.one_of(cluster_roles, roles, cluster_role_bindings, role_bindings),
    ),
    max_size=12,
)


class NaivePolicy:
    """All objects in one table, walked over for every question."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Any] = {}

    def apply(self, present: bool, obj: Any) -> None:
        key = (type(obj).__name__, obj.metadata.namespace, obj.metadata.name)
        self.objects.pop(key, None)
        if present:
            self.objects[key] = obj

    def allows(self, asked: Attributes) -> bool:
        return any(
            self.binding_allows(binding, asked)
            for (kind, _, _), binding in self.objects.items()
            if kind.endswith("Binding")
        )

    def binding_allows(self, binding: Any, asked: Attributes) -> bool:
        namespace = binding.metadata.namespace
        if namespace and (asked.path or namespace != asked.namespace):
            return False
        if not any(self.is_subject(subject, namespace, asked) for subject in binding.subjects):
            return False
        ref = binding.role_ref
        role = self.objects.get((ref.kind, namespace if ref.kind == "Role" else "", ref.name))
        return role is not None and any(rule_allows(rule, asked) for rule in role.rules)

    @staticmethod
    def is_subject(subject: Subject, namespace: str, asked: Attributes) -> bool:
        if subject.kind == "User":
            return subject.name == asked.user.name
        if subject.kind == "Group":
            return subject.name in asked.user.groups
        home = subject.namespace or namespace
        return bool(home) and asked.user.name == f"system:serviceaccount:{home}:{subject.name}"


def apply(policy: RBACPolicy, present: bool, obj: Any) -> None:
    is_role = isinstance(obj, (Role, ClusterRole))
    if present:
        (policy.put_role if is_role else policy.put_binding)(obj)
    else:
        (policy.remove_role if is_role else policy.remove_binding)(obj)


@settings(max_examples=400)
@given(changes, changes, st.lists(requests, min_size=1, max_size=12))
def test_indexed_evaluator_equals_a_naive_one(
    first: list[Change], second: list[Change], asked: list[Attributes]
) -> None:
    indexed, naive = RBACPolicy(), NaivePolicy()
    for batch in (first, second):
        for present, obj in batch:
            apply(indexed, present, obj)
            naive.apply(present, obj)
        for each in (*asked, *asked):
            verdict = indexed.decide(each)
            assert (verdict.decision is Decision.ALLOW) == naive.allows(each)
            assert verdict.decision is not Decision.DENY


@given(changes, st.lists(requests, min_size=1, max_size=5))
def test_what_was_allowed_names_a_binding_that_allows(batch: list[Change], asked: list[Attributes]) -> None:
    indexed, naive = RBACPolicy(), NaivePolicy()
    for present, obj in batch:
        apply(indexed, present, obj)
        naive.apply(present, obj)
    for each in asked:
        verdict = indexed.decide(each)
        if verdict.decision is Decision.ALLOW:
            named = verdict.reason.split('"')[1].split("/")
            kind = verdict.reason.removeprefix("RBAC: allowed by ").split(" ")[0]
            binding = naive.objects[kind, named[1] if len(named) > 1 else "", named[0]]
            assert naive.binding_allows(binding, each)


@given(changes, requests)
def test_listed_rules_and_decisions_agree(batch: list[Change], asked: Attributes) -> None:
    """A user may do what one of his listed rules allows, and nothing else."""
    indexed = RBACPolicy()
    for present, obj in batch:
        apply(indexed, present, obj)
    rules, _ = indexed.rules_of(asked.user, asked.namespace)
    listed = any(rule_allows(rule, asked) for rule in rules)
    assert (indexed.decide(asked).decision is Decision.ALLOW) == listed
