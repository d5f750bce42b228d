"""Covering is sound: what the escalation check lets through gives nobody more than the granter has."""

from __future__ import annotations

import itertools

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes
from kubevouch.authorization.rbac_cover import broken_down, compact, describe, uncovered
from property.rbac_strategies import (
    API_GROUPS,
    NAMES,
    RESOURCES,
    SUBRESOURCES,
    URLS,
    VERBS,
    rule_allows,
    rule_lists,
    rules,
)

SOMEBODY = UserInfo("somebody")
REQUESTS = [
    Attributes(SOMEBODY, verb, group, "v1", resource, subresource, "", name)
    for verb, group, resource, subresource, name in itertools.product(
        (*VERBS, "other"), (*API_GROUPS, "other"), (*RESOURCES, "other"), (*SUBRESOURCES, "other"), (*NAMES, "other")
    )
] + [Attributes(SOMEBODY, verb, path=path) for verb, path in itertools.product((*VERBS, "other"), (*URLS, "/other"))]


def allowed(granted: list[PolicyRule], asked: Attributes) -> bool:
    return any(rule_allows(rule, asked) for rule in granted)


@settings(max_examples=300)
@given(rule_lists, rule_lists)
def test_covered_means_allowed(held: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    missing = uncovered(held, wanted)
    for asked in REQUESTS:
        if allowed(wanted, asked) and not allowed(missing, asked):
            assert allowed(held, asked)


@given(rule_lists)
def test_rules_cover_themselves(held: list[PolicyRule]) -> None:
    assert uncovered(held, held) == []


@given(rule_lists, rule_lists)
def test_more_rules_never_cover_less(held: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    missing = uncovered(held, wanted)
    assert uncovered(held + wanted, wanted) == []
    assert uncovered(held + missing, wanted) == []


@given(rules)
def test_parts_allow_what_the_rule_allows(rule: PolicyRule) -> None:
    parts = list(broken_down(rule))
    for asked in REQUESTS:
        assert allowed(parts, asked) == rule_allows(rule, asked)


@given(rule_lists)
def test_compact_rules_allow_the_same(given_rules: list[PolicyRule]) -> None:
    parts = [part for rule in given_rules for part in broken_down(rule)]
    joined = compact(parts)
    assert len(joined) <= len(parts)
    for asked in REQUESTS:
        assert allowed(joined, asked) == allowed(parts, asked)


@given(rules, st.data())
def test_each_part_prints_differently(rule: PolicyRule, data: st.DataObject) -> None:
    parts = list(broken_down(rule))
    assume(len(parts) > 1)
    first, second = data.draw(st.sampled_from(parts)), data.draw(st.sampled_from(parts))
    assert (describe(first) == describe(second)) == (first == second)
