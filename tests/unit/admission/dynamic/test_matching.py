from __future__ import annotations

from typing import Any

import pytest

from admission_webhook import Tree, rule
from decisions import admission_request
from kubevouch.admission.dynamic.matching import Matcher, namespace_of
from kubevouch.admission.interface import Operation, Request, Version
from kubevouch.api.admissionregistration_v1.matching import MatchResources, default_match_resources
from kubevouch.api.catalog import CONFIG_MAPS, EVENTS, EVENTS_V1, NAMESPACES, NODES
from kubevouch.api.core_v1 import ConfigMap, Namespace, Node
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

PROD = Namespace(metadata=ObjectMeta(name="prod", labels={"stage": "prod"}))
NAMED = {"prod": PROD}.get


def nowhere(_name: str) -> None: ...


def matcher(*rules: Tree, **more: Any) -> Matcher:
    match = json_codec.from_tree({"resourceRules": list(rules), **more}, MatchResources).value
    defaulted = default_match_resources(match)
    assert defaulted is not None
    return Matcher.of(defaulted)


def config_map(operation: Operation = Operation.CREATE, subresource: str = "", **labels: str) -> Request:
    obj = ConfigMap(metadata=ObjectMeta(name="a", namespace="prod", labels=labels))
    return admission_request(operation, CONFIG_MAPS, obj, subresource=subresource)


@pytest.mark.parametrize(
    ("tree", "subresource", "expected"),
    [
        (rule(), "", True),
        (rule("*"), "", True),
        (rule("*/*"), "", True),
        (rule("*/*"), "status", True),
        (rule("*"), "status", False),
        (rule("configmaps/*"), "status", True),
        (rule("configmaps/status"), "status", True),
        (rule("*/status"), "status", True),
        (rule("configmaps/status"), "", False),
        (rule("secrets"), "", False),
        (rule("configmaps", "UPDATE"), "", False),
        (rule("configmaps", "UPDATE", "CREATE"), "", True),
        (rule(group="*"), "", True),
        (rule(group="apps"), "", False),
        (rule(version="*"), "", True),
        (rule(version="v2"), "", False),
        (rule(scope="Namespaced"), "", True),
        (rule(scope="Cluster"), "", False),
        (rule(resourceNames=["a"]), "", True),
        (rule(resourceNames=["b"]), "", False),
    ],
)
def test_rules(tree: Tree, subresource: str, expected: bool) -> None:
    assert (matcher(tree).match(config_map(subresource=subresource), NAMED) is not None) is expected


def test_excluded_and_no_rules_at_all() -> None:
    assert matcher().match(config_map(), NAMED) is not None
    excluding = matcher(rule(), excludeResourceRules=[rule("configmaps", "DELETE")])
    assert excluding.match(config_map(), NAMED) is not None
    assert excluding.match(config_map(Operation.DELETE), NAMED) is None


def test_selectors() -> None:
    by_object = matcher(rule(), objectSelector={"matchLabels": {"a": "b"}})
    assert by_object.match(config_map(), NAMED) is None
    assert by_object.match(config_map(a="b"), NAMED) is not None
    before = config_map(Operation.UPDATE)
    before.old = config_map(a="b").obj
    assert by_object.match(before, NAMED) is not None
    by_namespace = matcher(rule(), namespaceSelector={"matchLabels": {"stage": "prod"}})
    assert by_namespace.match(config_map(), NAMED) is not None
    with pytest.raises(APIStatusError, match='namespaces "prod" not found'):
        by_namespace.match(config_map(), nowhere)
    # Rules come first: a namespace that is missing is nobody's business then.
    assert matcher(rule("secrets"), namespaceSelector={"matchLabels": {"a": "b"}}).match(config_map(), nowhere) is None


def test_what_is_in_no_namespace_is_never_exempted() -> None:
    node = admission_request(Operation.CREATE, NODES, Node(metadata=ObjectMeta(name="n")))
    selecting = matcher(rule("nodes", scope="Cluster"), namespaceSelector={"matchLabels": {"stage": "prod"}})
    assert selecting.match(node, NAMED) is not None


def test_a_namespace_is_in_itself() -> None:
    selecting = matcher(rule("namespaces", scope="Cluster"), namespaceSelector={"matchLabels": {"stage": "prod"}})
    made = admission_request(Operation.CREATE, NAMESPACES, PROD)
    assert namespace_of(made) == "prod"
    # Not in the cache yet.
    assert selecting.match(made, nowhere) is not None
    deleted = admission_request(Operation.DELETE, NAMESPACES, old=PROD)
    assert selecting.match(deleted, NAMED) is not None


@pytest.mark.parametrize(("policy", "expected"), [("Equivalent", EVENTS_V1), ("Exact", None)])
def test_equivalent_versions(policy: str, expected: Any) -> None:
    request = admission_request(Operation.CREATE, EVENTS, name="e", namespace="prod")
    request.versions = (Version(EVENTS), Version(EVENTS_V1))
    found = matcher(rule("events", group="events.k8s.io"), matchPolicy=policy).match(request, NAMED)
    assert (found and found.resource) is expected
