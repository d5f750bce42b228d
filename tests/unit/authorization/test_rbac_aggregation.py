from __future__ import annotations

import pytest

from kubevouch.api.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from kubevouch.authorization.policy import rule
from kubevouch.authorization.rbac_aggregation import aggregated_rules
from kubevouch.machinery.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubevouch.machinery.text.selectors import SelectorError

PODS, NODES, SECRETS = (rule("get", "", name) for name in ("pods", "nodes", "secrets"))


def role(name: str, *rules: PolicyRule, **labels: str) -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name, labels=labels), rules=list(rules))


def whole(*selectors: LabelSelector, labels: dict[str, str] | None = None) -> ClusterRole:
    return ClusterRole(
        metadata=ObjectMeta(name="m", labels=labels or {}),
        rules=[SECRETS],
        aggregation_rule=AggregationRule(cluster_role_selectors=list(selectors)),
    )


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


ROLES = [role("b", PODS, NODES, to="view"), role("a", NODES, to="view"), role("z", SECRETS, to="edit"), role("free")]


@pytest.mark.parametrize(
    ("aggregating", "rules"),
    [
        (role("m", PODS), None),
        (whole(), []),
        (whole(selector(to="nobody")), []),
        (whole(selector(to="view")), [NODES, PODS]),
        (whole(selector(to="edit"), selector(to="view")), [SECRETS, NODES, PODS]),
        (whole(selector(to="view"), selector(to="view")), [NODES, PODS]),
        (whole(selector()), [NODES, PODS, SECRETS]),
        (
            whole(LabelSelector(match_expressions=[LabelSelectorRequirement(key="to", operator="DoesNotExist")])),
            [],
        ),
    ],
)
def test_rules_of_the_selected_roles_by_name(aggregating: ClusterRole, rules: list[PolicyRule] | None) -> None:
    assert aggregated_rules(aggregating, [*ROLES, aggregating]) == rules


def test_role_does_not_aggregate_itself() -> None:
    aggregating = whole(selector(to="view"), labels={"to": "view"})
    assert aggregated_rules(aggregating, [aggregating]) == []


def test_malformed_selector() -> None:
    malformed = LabelSelector(match_expressions=[LabelSelectorRequirement(key="to", operator="Like")])
    with pytest.raises(SelectorError):
        aggregated_rules(whole(malformed), ROLES)
