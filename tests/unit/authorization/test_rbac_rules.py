from __future__ import annotations

import pytest

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.rbac_rules import CompiledRules

CERTIFICATES = "certificates.k8s.io"


def on(resources: str, verbs: str = "get", group: str = "", names: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=verbs.split(), api_groups=[group], resources=resources.split(), resource_names=names.split()
    )


@pytest.mark.parametrize(
    ("rule", "verb", "resource", "subresource", "name", "allowed"),
    [
        (on("nodes"), "get", "nodes", "", "", True),
        (on("nodes"), "get", "nodes", "", "n", True),
        (on("nodes"), "list", "nodes", "", "", False),
        (on("nodes", "*"), "anything", "nodes", "", "", True),
        (on("nodes", "GET"), "get", "nodes", "", "", False),
        (on("nodes"), "get", "node", "", "", False),
        (on("nodes"), "get", "nodes", "status", "", False),
        (on("nodes/status"), "get", "nodes", "status", "", True),
        (on("nodes/status"), "get", "nodes", "", "", False),
        (on("nodes/*"), "get", "nodes", "status", "", False),
        (on("*/status"), "get", "nodes", "status", "", True),
        (on("*/status"), "get", "nodes", "", "", False),
        (on("*/status"), "get", "nodes", "proxy", "", False),
        (on("*"), "get", "nodes", "", "", True),
        (on("*"), "get", "nodes", "status", "", True),
        (on("*/*"), "get", "nodes", "status", "", False),
        (on("nodes", group="*"), "get", "nodes", "", "", True),
        (on("nodes", group="apps"), "get", "nodes", "", "", False),
        (on("nodes", names="a b"), "get", "nodes", "", "a", True),
        (on("nodes", names="a b"), "get", "nodes", "", "c", False),
        (on("nodes", names="a b"), "create", "nodes", "", "", False),
        (on("nodes", "*", names="a b"), "list", "nodes", "", "", False),
        (on("nodes", names="*"), "get", "nodes", "", "a", False),
        (on("nodes", names="a*"), "get", "nodes", "", "ab", False),
        (on("nodes", ""), "get", "nodes", "", "", False),
        (PolicyRule(verbs=["get"], resources=["nodes"]), "get", "nodes", "", "", False),
        (PolicyRule(verbs=["*"], non_resource_urls=["*"]), "get", "nodes", "", "", False),
    ],
)
def test_rule_about_a_resource(
    rule: PolicyRule, verb: str, resource: str, subresource: str, name: str, allowed: bool
) -> None:
    assert CompiledRules([rule]).allows_resource(verb, "", resource, subresource, name) is allowed


def test_rules_do_not_mix() -> None:
    rules = CompiledRules([on("secrets", "get", names="a"), on("nodes", "list"), on("signers", "sign", CERTIFICATES)])
    assert rules.allows_resource("get", "", "secrets", "", "a")
    assert not rules.allows_resource("get", "", "nodes", "", "a")
    assert not rules.allows_resource("list", "", "secrets", "", "a")
    assert not rules.allows_resource("sign", "", "signers", "", "")


@pytest.mark.parametrize("order", [1, -1])
def test_rule_without_names_widens_one_with_names(order: int) -> None:
    rules = CompiledRules([on("nodes", names="a"), on("nodes"), on("nodes", names="b")][::order])
    assert rules.allows_resource("get", "", "nodes", "", "c")


def test_names_of_several_rules_add_up() -> None:
    rules = CompiledRules([on("nodes", names="a"), on("nodes", names="b")])
    assert [rules.allows_resource("get", "", "nodes", "", name) for name in "abc"] == [True, True, False]


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/", False),
        ("/healthz", "/healthz/etcd", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz/etcd/deep", True),
        ("/healthz/*", "/healthz/", True),
        ("/healthz/*", "/healthz", False),
        ("/healthz*", "/healthz", True),
        ("/healthz*", "/healthzother", True),
        ("*", "/", True),
        ("*", "/anything", True),
        ("/*/etcd", "/healthz/etcd", False),
        ("/*/etcd", "/*/etcd", True),
        ("/api/**", "/api/v1", True),
        ("/X*", "/", False),
        ("", "/", False),
    ],
)
def test_rule_about_a_url(url: str, path: str, allowed: bool) -> None:
    rules = CompiledRules([PolicyRule(verbs=["get"], non_resource_urls=[url])])
    assert rules.allows_url("get", path) is allowed
    assert not rules.allows_url("post", path)
    assert CompiledRules([PolicyRule(verbs=["*"], non_resource_urls=[url])]).allows_url("post", path) is allowed


def test_prefixes_of_several_rules_add_up() -> None:
    rules = CompiledRules([PolicyRule(verbs=["get"], non_resource_urls=[url]) for url in ("/a*", "/b*")])
    assert [rules.allows_url("get", path) for path in ("/a1", "/b1", "/c1")] == [True, True, False]


def test_resource_rule_opens_no_url() -> None:
    assert not CompiledRules([on("*", "*", "*")]).allows_url("get", "/metrics")


def test_no_rules() -> None:
    assert not CompiledRules([]).allows_resource("get", "", "nodes", "", "")
    assert not CompiledRules([PolicyRule()]).allows_url("get", "/")
