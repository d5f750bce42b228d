from __future__ import annotations

from typing import Any

import pytest

from admission_webhook import Tree, rule
from decisions import admission_request
from kubevouch.admission.dynamic.matching import Matcher
from kubevouch.admission.dynamic.validating_admission_policy import policies
from kubevouch.admission.interface import Operation, Request, Version
from kubevouch.api.admissionregistration_v1.matching import MatchResources, default_match_resources
from kubevouch.api.admissionregistration_v1.policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
)
from kubevouch.api.catalog import CONFIG_MAPS, EVENTS, EVENTS_V1, NODES
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta

RULES: dict[str, list[Tree]] = {
    "a-secrets": [rule("secrets")],
    "all": [rule("*", group="*", version="*")],
    "all-below": [rule("*/*", group="*", version="*")],
    "any-status": [rule("*/status", group="*", version="*")],
    "also-any": [rule("secrets"), rule("*")],
    "both": [rule("nodes"), rule("configmaps")],
    "core-events": [rule("events")],
    "maps": [rule("configmaps")],
    "maps-below": [rule("configmaps/*")],
    "node-status": [rule("nodes/status", "UPDATE")],
    "nodes": [rule("nodes", "DELETE"), rule("nodes", "CREATE")],
}


def _policy(name: str, rules: list[Tree]) -> ValidatingAdmissionPolicy:
    match = default_match_resources(json_codec.from_tree({"resourceRules": rules}, MatchResources).value)
    return ValidatingAdmissionPolicy(
        metadata=ObjectMeta(name=name), spec=ValidatingAdmissionPolicySpec(match_constraints=match)
    )


def _binding(name: str) -> ValidatingAdmissionPolicyBinding:
    tree = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    found: ValidatingAdmissionPolicyBinding = json_codec.from_tree(tree, ValidatingAdmissionPolicyBinding).value
    return found


def _matches(policy: ValidatingAdmissionPolicy, asked: Request) -> bool:
    assert policy.spec.match_constraints is not None
    return Matcher.of(policy.spec.match_constraints).match(asked, lambda _name: None) is not None


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("resources", [(NODES,), (CONFIG_MAPS,), (EVENTS_V1, EVENTS), (NODES, CONFIG_MAPS)])
def test_no_policy_that_matches_is_left_out(operation: Operation, subresource: str, resources: tuple[Any, ...]) -> None:
    every = [_policy(name, rules) for name, rules in sorted(RULES.items())]
    source = policies()
    source.load_policies(reversed(every))
    source.load_bindings(map(_binding, RULES))
    asked = admission_request(operation, resources[0], subresource=subresource)
    asked.versions = tuple(map(Version, resources))
    found = [hook.policy for hook in source.hooks(asked)]
    assert [each for each in found if _matches(each, asked)] == [each for each in every if _matches(each, asked)]
    # None but those that may match have to be asked, unless the versions have several names.
    names = {each.plural for each in resources}
    assert ("a-secrets" in [each.metadata.name for each in found]) == (len(names) > 1)


def test_hooks_follow_policies_and_bindings() -> None:
    source, asked = policies(), admission_request(Operation.CREATE, NODES)
    policy = _policy("a", [rule("nodes")])
    source.policy_changed("a", policy)
    assert source.hooks(asked) == ()
    source.binding_changed("a", _binding("a"))
    assert [hook.policy for hook in source.hooks(asked)] == [policy]
    source.policy_changed("a", _policy("a", [rule("secrets")]))
    assert source.hooks(asked) == ()
    source.policy_changed("a", policy)
    source.binding_changed("a", None)
    assert source.hooks(asked) == ()
