"""What is wrong with rules, selectors and conditions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kubevouch.api.admissionregistration_v1.expressions import expression_errors
from kubevouch.api.admissionregistration_v1.matching import (
    ANY,
    MATCH_POLICIES,
    MAX_MATCH_CONDITIONS,
    OPERATIONS,
    SCOPES,
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    Rule,
)
from kubevouch.api.meta_v1 import validate_label_selector
from kubevouch.cel.environment import BOOL
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.text import names


def choice_errors(path: str, value: str | None, choices: Collection[str]) -> list[FieldError]:
    if value is None or value in choices:
        return []
    return [field.not_supported(path, TypedString(value), sorted(choices))]


def validate_rule(rule: Rule, path: str) -> list[FieldError]:
    errors = _wildcard_errors(f"{path}.operations", rule.operations, "operations")
    for index, operation in enumerate(rule.operations):
        errors += choice_errors(f"{path}.operations[{index}]", operation, OPERATIONS)
    errors += _wildcard_errors(f"{path}.apiGroups", rule.api_groups, "API groups")
    errors += _wildcard_errors(f"{path}.apiVersions", rule.api_versions, "API versions")
    errors += [field.required(f"{path}.apiVersions[{i}]") for i, each in enumerate(rule.api_versions) if not each]
    errors += _resource_errors(f"{path}.resources", rule.resources)
    return errors + choice_errors(f"{path}.scope", rule.scope, SCOPES)


def _wildcard_errors(path: str, values: Sequence[str], what: str) -> list[FieldError]:
    if not values:
        return [field.required(path)]
    if len(values) > 1 and ANY in values:
        return [field.invalid(path, list(values), f"if '*' is present, must not specify other {what}")]
    return []


def _resource_errors(path: str, resources: Sequence[str]) -> list[FieldError]:
    if not resources:
        return [field.required(path)]
    errors: list[FieldError] = []
    any_subresource: set[str] = set()
    any_resource: set[str] = set()
    plain = False
    for index, text in enumerate(resources):
        where = f"{path}[{index}]"
        resource, slash, subresource = text.partition("/")
        if not text:
            errors.append(field.required(where))
            continue
        if not slash:
            # Kubernetes keeps what the last one without a subresource was.
            plain = text != ANY
            continue
        if resource in any_subresource:
            errors.append(field.invalid(where, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in any_resource:
            errors.append(field.invalid(where, text, f"if '*/{subresource}' is present, must not specify {text}"))
        if subresource == ANY:
            any_subresource.add(resource)
        if resource == ANY:
            any_resource.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(field.invalid(path, list(resources), "if '*/*' is present, must not specify other resources"))
    if ANY in resources and plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errors.append(field.invalid(path, list(resources), why))
    return errors


def validate_match_conditions(
    conditions: Sequence[MatchCondition], path: str, *, params: bool = False
) -> list[FieldError]:
    """``params``: the expressions may use a policy's parameters."""
    errors: list[FieldError] = []
    if len(conditions) > MAX_MATCH_CONDITIONS:
        errors.append(field.too_many(path, len(conditions), MAX_MATCH_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        source = condition.expression.strip()
        if not source:
            errors.append(field.required(f"{where}.expression"))
        else:
            errors += expression_errors(f"{where}.expression", source, (BOOL,), params=params)
        if not condition.name:
            errors.append(field.required(f"{where}.name"))
            continue
        errors += [field.invalid(f"{where}.name", condition.name, why) for why in names.qualified_name(condition.name)]
        if condition.name in seen:
            errors.append(field.duplicate(f"{where}.name", condition.name))
        seen.add(condition.name)
    return errors


def validate_match_resources(match: MatchResources | None, path: str) -> list[FieldError]:
    if match is None:
        return []
    errors: list[FieldError] = []
    if match.match_policy is None:
        errors.append(field.required(f"{path}.matchPolicy"))
    errors += choice_errors(f"{path}.matchPolicy", match.match_policy, MATCH_POLICIES)
    selectors = {"namespaceSelector": match.namespace_selector, "objectSelector": match.object_selector}
    for name, selector in selectors.items():
        if selector is None:
            errors.append(field.required(f"{path}.{name}"))
        else:
            errors += validate_label_selector(selector, f"{path}.{name}")
    for name, rules in (
        ("resourceRules", match.resource_rules),
        ("excludeResourceRules", match.exclude_resource_rules),
    ):
        for index, rule in enumerate(rules):
            errors += _named_rule_errors(rule, f"{path}.{name}[{index}]")
    return errors


def _named_rule_errors(rule: NamedRuleWithOperations, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(rule.resource_names):
        where = f"{path}.resourceNames[{index}]"
        errors += [field.invalid(where, name, why) for why in names.path_segment_name(name, False)]
        if name in seen:
            errors.append(field.duplicate(where, name))
        seen.add(name)
    return errors + validate_rule(rule, path)
