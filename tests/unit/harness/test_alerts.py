"""The alerting rules ask for metrics that the program has."""

from __future__ import annotations

import re

import yaml

import peers

METRICS = (peers.ROOT / "docs" / "reference" / "metrics.md").read_text()
RULES = yaml.safe_load((peers.ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())["groups"][0]["rules"]


def test_every_metric_is_one_of_the_reference() -> None:
    known = set(re.findall(r"`(kubevouch_\w+)`", METRICS))
    asked = {name.removesuffix("_bucket") for rule in RULES for name in re.findall(r"kubevouch_\w+", rule["expr"])}
    assert asked <= known


def test_every_rule_has_a_name_a_summary_and_a_severity() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) > 10
    assert {rule["labels"]["severity"] for rule in RULES} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"].endswith(".") for rule in RULES)
