from __future__ import annotations

import pytest

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import path_rule, rule
from kubevouch.authorization.rbac_cover import broken_down, compact, describe, quoted_slice, uncovered


@pytest.mark.parametrize(
    ("owned", "wanted", "covered"),
    [
        (rule("get", "", "nodes"), rule("get", "", "nodes"), True),
        (rule("get list", "", "nodes secrets"), rule("list", "", "secrets"), True),
        (rule("get", "", "nodes"), rule("list", "", "nodes"), False),
        (rule("get", "", "nodes"), rule("*", "", "nodes"), False),
        (rule("*", "", "nodes"), rule("escalate", "", "nodes"), True),
        (rule("get", "", "nodes"), rule("get", "apps", "nodes"), False),
        (rule("get", "*", "nodes"), rule("get", "apps", "nodes"), True),
        (rule("get", "", "nodes"), rule("get", "*", "nodes"), False),
        (rule("get", "", "*"), rule("get", "", "nodes/status"), True),
        (rule("get", "", "nodes"), rule("get", "", "*"), False),
        (rule("get", "", "nodes"), rule("get", "", "nodes/status"), False),
        (rule("get", "", "*/status"), rule("get", "", "nodes/status"), True),
        (rule("get", "", "*/status"), rule("get", "", "nodes"), False),
        (rule("get", "", "nodes/status"), rule("get", "", "*/status"), False),
        (rule("get", "", "*/status"), rule("get", "", "nodes/proxy/status"), False),
        (rule("get", "", "nodes/*"), rule("get", "", "nodes/status"), False),
        (rule("get", "", "nodes"), rule("get", "", "nodes", ["a"]), True),
        (rule("get", "", "nodes", ["a", "b"]), rule("get", "", "nodes", ["a"]), True),
        (rule("get", "", "nodes", ["a"]), rule("get", "", "nodes", ["b"]), False),
        (rule("get", "", "nodes", ["a"]), rule("get", "", "nodes"), False),
        (rule("get", "", "nodes", ["*"]), rule("get", "", "nodes", ["a"]), False),
        (path_rule("/metrics"), path_rule("/metrics"), True),
        (path_rule("/healthz/*"), path_rule("/healthz/etcd"), True),
        (path_rule("/healthz/*"), path_rule("/healthz/*"), True),
        (path_rule("/healthz/*"), path_rule("/healthz"), False),
        (path_rule("/healthz"), path_rule("/healthz/*"), False),
        (path_rule("/X*"), path_rule("/metrics"), False),
        (path_rule("*"), path_rule("/anything/*"), True),
        (rule("*", "*", "*"), path_rule("/metrics"), False),
        (path_rule("*"), rule("get", "", "nodes"), False),
        (rule("get", "", "nodes"), PolicyRule(verbs=[], api_groups=[""], resources=["secrets"]), True),
    ],
)
def test_one_rule_covers_another(owned: PolicyRule, wanted: PolicyRule, covered: bool) -> None:
    assert (uncovered([owned], [wanted]) == []) is covered


def test_what_is_missing_comes_in_parts() -> None:
    owned = [rule("get", "", "nodes"), rule("list", "", "secrets")]
    missing = uncovered(owned, [rule("get list", "", "nodes secrets"), path_rule("/metrics")])
    assert missing == [rule("list", "", "nodes"), rule("get", "", "secrets"), path_rule("/metrics")]


def test_several_rules_together_cover_one() -> None:
    owned = [rule("get", "", "nodes"), rule("list", "", "nodes"), rule("get list", "", "secrets", ["a"])]
    assert uncovered(owned, [rule("get list", "", "nodes"), rule("get", "", "secrets", ["a"])]) == []


def test_nothing_is_owned() -> None:
    assert uncovered([], [rule("get", "", "nodes")]) == [rule("get", "", "nodes")]
    assert uncovered([], []) == []


def test_broken_down() -> None:
    whole = PolicyRule(
        verbs=["get", "list"], api_groups=["", "apps"], resources=["pods"], resource_names=["a", "b"],
        non_resource_urls=["/x"],
    )  # fmt: skip
    parts = list(broken_down(whole))
    assert len(parts) == 2 * 2 * 2 + 2
    assert parts[0] == rule("get", "", "pods", ["a"])
    assert parts[-1] == PolicyRule(verbs=["list"], non_resource_urls=["/x"])
    assert list(broken_down(PolicyRule())) == []


def test_compact_joins_verbs_of_one_resource() -> None:
    assert compact(
        [
            rule("get", "", "nodes"),
            rule("get", "", "nodes", ["a"]),
            path_rule("/metrics"),
            rule("list", "", "nodes"),
            rule("delete", "apps", "nodes"),
            rule("get", "", "pods secrets"),
            rule("get", "", "nodes", ["a", "b"]),
            rule("list", "", "nodes", ["a", "b"]),
        ]
    ) == [
        path_rule("/metrics"),
        rule("get", "", "pods secrets"),
        rule("get", "", "nodes", ["a", "b"]),
        rule("list", "", "nodes", ["a", "b"]),
        PolicyRule(verbs=["get", "list"], api_groups=[""], resources=["nodes"]),
        rule("get", "", "nodes", ["a"]),
        rule("delete", "apps", "nodes"),
    ]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (rule("get list", "", "nodes"), '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}'),
        (
            rule("get", "", "nodes", ['a"b']),
            '{APIGroups:[""], Resources:["nodes"], ResourceNames:["a\\"b"], Verbs:["get"]}',
        ),
        (path_rule("/a /b"), '{NonResourceURLs:["/a" "/b"], Verbs:["get"]}'),
        (PolicyRule(), "{}"),
    ],
)
def test_describe(shown: PolicyRule, text: str) -> None:
    assert describe(shown) == text


def test_quoted_slice() -> None:
    assert quoted_slice([]) == "[]"
    assert quoted_slice(["a", "b c"]) == '["a" "b c"]'
