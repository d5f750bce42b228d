"""ClusterRoles that are made of others.

Source: pkg/controller/clusterroleaggregation (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.api.rbac_v1 import ClusterRole, PolicyRule
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.selectors import label_selector_of


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule] | None:
    """The rules that ``role`` should have, or None if it does not aggregate.

    Selector by selector, the matching roles by name, each rule once. Rules that somebody wrote into the role itself are
    not among them: they are overwritten.

    Raises:
        SelectorError: a selector of the role is malformed.
    """
    if role.aggregation_rule is None:
        return None
    others = sorted((each for each in roles if each.metadata.name != role.metadata.name), key=_name)
    rules: dict[bytes, PolicyRule] = {}
    for struct in role.aggregation_rule.cluster_role_selectors:
        selector = label_selector_of(struct)
        for other in others:
            if selector.matches(other.metadata.labels):
                for rule in other.rules or []:
                    rules.setdefault(json_codec.encode(rule), rule)
    return list(rules.values())


def _name(role: ClusterRole) -> str:
    return role.metadata.name
