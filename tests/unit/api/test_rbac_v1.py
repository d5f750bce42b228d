from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
    default_binding,
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_cluster_role_update,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
    validate_role_update,
)
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import LabelSelector, LabelSelectorRequirement

GROUP = "rbac.authorization.k8s.io"
EDIT = RoleRef(api_group=GROUP, kind="ClusterRole", name="edit")


def texts(problems: list[FieldError]) -> list[str]:
    return [str(problem) for problem in problems]


def test_nil_lists_are_null_in_json() -> None:
    assert json_codec.encode(Role()) == b'{"metadata":{},"rules":null}'
    assert json_codec.encode(ClusterRole(rules=[PolicyRule()])) == b'{"metadata":{},"rules":[{"verbs":null}]}'
    assert json_codec.encode(ClusterRole(rules=[])) == b'{"metadata":{},"rules":[]}'
    assert json_codec.encode(RoleBinding()) == (b'{"metadata":{},"roleRef":{"apiGroup":"","kind":"","name":""}}')


def test_defaults_fill_in_groups() -> None:
    binding = default_binding(
        ClusterRoleBinding(
            role_ref=RoleRef(kind="ClusterRole", name="edit"),
            subjects=[
                Subject(kind="User", name="u"),
                Subject(kind="Group", name="g", api_group="other"),
                Subject(kind="ServiceAccount", name="s", namespace="n"),
                Subject(kind="Robot", name="r"),
            ],
        )
    )
    assert binding.role_ref == EDIT
    assert [subject.api_group for subject in binding.subjects] == [GROUP, "other", "", ""]
    assert default_binding(binding) is binding


REGULAR = PolicyRule(verbs=["get"], api_groups=[""], resources=["pods"])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (REGULAR, []),
        (
            PolicyRule(),
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            PolicyRule(verbs=["get"], non_resource_urls=["/x"], resource_names=["n"]),
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
                    "non-resource URLs"
                )
            ],
        ),
    ],
)
def test_cluster_role_rules(rule: PolicyRule, expected: list[str]) -> None:
    assert texts(validate_cluster_role(ClusterRole(rules=[rule]))) == expected


def test_roles_of_a_namespace_have_no_urls() -> None:
    role = Role(rules=[REGULAR, PolicyRule(verbs=["get"], non_resource_urls=["/x"])])
    expected = ['rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs']
    assert texts(validate_role(role)) == expected
    assert texts(validate_role_update(role, Role())) == expected
    assert validate_cluster_role(ClusterRole(rules=role.rules)) == []
    assert validate_role(Role()) == []


def selecting(*values: str) -> ClusterRole:
    expression = LabelSelectorRequirement(key="k", operator="In", values=list(values))
    selector = LabelSelector(match_expressions=[expression])
    return ClusterRole(aggregation_rule=AggregationRule(cluster_role_selectors=[selector]))


def test_aggregation() -> None:
    empty = ClusterRole(aggregation_rule=AggregationRule())
    assert texts(validate_cluster_role(empty)) == [
        (
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
            "aggregationRule is non-nil"
        )
    ]
    assert texts(validate_cluster_role(selecting())) == [
        (
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified "
            "when `operator` is 'In' or 'NotIn'"
        )
    ]
    bad = selecting("a b")
    [text] = texts(validate_cluster_role_update(bad, selecting("a")))
    assert text.startswith("aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values[0]: Invalid value")
    assert validate_cluster_role_update(bad, bad) == []


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Subject(kind="User", name="u", api_group=GROUP), []),
        (Subject(kind="ServiceAccount", name="s", namespace="n"), []),
        (
            Subject(kind="Group", api_group="other"),
            [
                "subjects[0].name: Required value",
                f'subjects[0].apiGroup: Unsupported value: "other": supported values: "{GROUP}"',
            ],
        ),
        (
            Subject(kind="ServiceAccount", name="s", api_group="other", namespace="n"),
            ['subjects[0].apiGroup: Unsupported value: "other": supported values: ""'],
        ),
        (Subject(kind="ServiceAccount", namespace="n"), ["subjects[0].name: Required value"]),
        (
            Subject(kind="", name="x"),
            ['subjects[0].kind: Unsupported value: "": supported values: "ServiceAccount", "User", "Group"'],
        ),
    ],
)
def test_subjects(subject: Subject, expected: list[str]) -> None:
    assert texts(validate_role_binding(RoleBinding(role_ref=EDIT, subjects=[subject]))) == expected
    assert texts(validate_cluster_role_binding(ClusterRoleBinding(role_ref=EDIT, subjects=[subject]))) == expected


def test_a_service_account_has_a_name_and_perhaps_a_namespace() -> None:
    [text] = texts(
        validate_role_binding(RoleBinding(role_ref=EDIT, subjects=[Subject(kind="ServiceAccount", name="S")]))
    )
    assert text.startswith('subjects[0].name: Invalid value: "S": a lowercase RFC 1123 subdomain')
    binding = ClusterRoleBinding(role_ref=EDIT, subjects=[Subject(kind="ServiceAccount", name="s")])
    assert texts(validate_cluster_role_binding(binding)) == ["subjects[0].namespace: Required value"]


@pytest.mark.parametrize(
    ("role_ref", "expected"),
    [
        (RoleRef(api_group=GROUP, kind="Role", name="a:b"), []),
        (
            RoleRef(api_group="x", kind="Robot"),
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"',
                'roleRef.kind: Unsupported value: "Robot": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
            ],
        ),
        (
            RoleRef(api_group=GROUP, kind="Role", name="a/b"),
            ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
    ],
)
def test_role_refs(role_ref: RoleRef, expected: list[str]) -> None:
    assert texts(validate_role_binding(RoleBinding(role_ref=role_ref))) == expected


def test_a_cluster_role_binding_grants_cluster_roles_only() -> None:
    binding = ClusterRoleBinding(role_ref=RoleRef(api_group=GROUP, kind="Role", name="r"))
    assert texts(validate_cluster_role_binding(binding)) == [
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'
    ]


def test_the_role_of_a_binding_stays() -> None:
    def bound(**changes: Any) -> RoleBinding:
        return RoleBinding(role_ref=RoleRef(**({"api_group": GROUP, "kind": "Role", "name": "a"} | changes)))

    assert texts(validate_role_binding_update(bound(name="b"), bound())) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"Role","Name":"b"}}: cannot change roleRef'
    ]
    assert validate_role_binding_update(bound(), bound()) == []
