"""Whether some rules cover others, and how rules print.

Source: pkg/registry/rbac/validation/policy_comparator.go, policy_compact.go, pkg/apis/rbac/v1/helpers.go (Kubernetes
1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from kubevouch.api.rbac_v1 import ALL, PolicyRule
from kubevouch.machinery.text.gotext import quote


def uncovered(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What ``wanted`` grants and ``owned`` does not, in parts of one verb on one resource, name or URL.

    A part has to be covered by a single rule. What is covered is allowed: no owner can grant more than he may do.
    """
    # Most roles are as they were shipped: comparing whole rules first makes a server start a fifth sooner.
    unlike = [rule for rule in wanted if rule not in owned]
    owners = [_Owner.of(rule) for rule in owned] if unlike else []
    return [part for rule in unlike for part in broken_down(rule) if not any(_covers(owner, part) for owner in owners)]


class _Owner(NamedTuple):
    """A rule that may cover others."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: list[str]

    @classmethod
    def of(cls, rule: PolicyRule) -> _Owner:
        verbs, names = frozenset(rule.verbs or ()), frozenset(rule.resource_names)
        return cls(verbs, frozenset(rule.api_groups), frozenset(rule.resources), names, rule.non_resource_urls)


def broken_down(rule: PolicyRule) -> Iterator[PolicyRule]:
    """The rule as rules of one verb on one resource, name or URL each."""
    verbs = rule.verbs or []
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in verbs:
                single = PolicyRule(verbs=[verb], api_groups=[group], resources=[resource])
                if rule.resource_names:
                    for name in rule.resource_names:
                        yield msgspec.structs.replace(single, resource_names=[name])
                else:
                    yield single
    for url in rule.non_resource_urls:
        for verb in verbs:
            yield PolicyRule(verbs=[verb], non_resource_urls=[url])


def _covers(owner: _Owner, part: PolicyRule) -> bool:
    if not _has_all(owner.verbs, part.verbs or []) or not _has_all(owner.groups, part.api_groups):
        return False
    if not all(_covers_resource(owner.resources, resource) for resource in part.resources):
        return False
    if not all(_covers_url(owner.urls, url) for url in part.non_resource_urls):
        return False
    if not owner.names:
        return True
    return bool(part.resource_names) and owner.names.issuperset(part.resource_names)


def _has_all(owned: frozenset[str], wanted: list[str]) -> bool:
    return ALL in owned or owned.issuperset(wanted)


def _covers_resource(owned: frozenset[str], resource: str) -> bool:
    if ALL in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _covers_url(owned: list[str], url: str) -> bool:
    return any(each == url or (each.endswith("*") and url.startswith(each.rstrip("*"))) for each in owned)


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Rules about one resource that differ only in their verbs, joined; the others come first, as they are."""
    others: list[PolicyRule] = []
    joined: dict[tuple[str, str, tuple[str, ...]], PolicyRule] = {}
    for rule in rules:
        if (
            rule.non_resource_urls
            or len(rule.resource_names) > 1
            or not len(rule.api_groups) == len(rule.resources) == 1
        ):
            others.append(rule)
            continue
        key = (rule.api_groups[0], rule.resources[0], tuple(rule.resource_names))
        known = joined.get(key)
        verbs = [*(known.verbs or [] if known else []), *(rule.verbs or [])]
        joined[key] = msgspec.structs.replace(rule, verbs=verbs)
    return others + list(joined.values())


def describe(rule: PolicyRule) -> str:
    """The rule as messages show it: ``{APIGroups:["g"], Resources:["r"], Verbs:["v"]}``."""
    parts = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.non_resource_urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs or [],
    }
    shown = ", ".join(f"{name}:{quoted_slice(values)}" for name, values in parts.items() if values)
    return f"{{{shown}}}"


def quoted_slice(values: Iterable[str]) -> str:
    """Go's ``%q`` of a ``[]string``: ``["a" "b"]``."""
    return f"[{' '.join(map(quote, values))}]"
