"""What is checked of rules when a definition is written: their form, whether they compile, what they may cost.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation, validation.go and cel_validation.go
(Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Final

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.field import ErrorType, FieldError, TypedString
from kubevouch.structural.rule_cost import estimate
from kubevouch.structural.rule_function_costs import MOST
from kubevouch.structural.rule_types import MAX_REQUEST, Declared, declared_type
from kubevouch.structural.rules import CompiledRule, below_property, compile_rules, field_path
from kubevouch.structural.schema import Rule, Schema

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
"""What one rule, and all rules of a schema, may cost at worst."""

_MOST_NAMED: Final = 4
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def check_rules(
    schema: Schema,
    path: str,
    old_schema: Schema | None = None,
    *,
    errors: Sequence[FieldError] = (),
    is_structural: bool = True,
) -> list[FieldError]:
    """What is wrong with the rules of the schema of a whole object.

    Args:
        path: of the schema in the definition.
        old_schema: the one that is stored. If it is the same, what each rule may cost is not limited again.
        errors: what is wrong with the schema otherwise; rules at such a node and around it are not compiled.
        is_structural: if not, no rule is.
    """
    if not schema.has_rules:
        return []
    found = _Check(suppress_cost=old_schema is not None and old_schema.tree == schema.tree)
    found.blocked.update(_around(errors))
    found.walk(schema, path, _Place(declared_type(schema, whole=True), 1, ""), typed=is_structural)
    return [*found.form_errors, *found.errors, *found.total_errors(path)]


def _around(errors: Sequence[FieldError]) -> set[str]:
    """The paths of all nodes that have one of the errors, or one below them."""
    found = set()
    for error in errors:
        path = error.path
        while path and path not in found:
            found.add(path)
            path = re.sub(r"(?:\.[^.\[\]]*|\[[^\]]*\])\Z", "", path) if path[-1:] in "]" or "." in path else ""
    return found


class _Place(msgspec.Struct, frozen=True):
    """Where a walk stands.

    Args:
        declared: the type of values there; None if rules cannot see them.
        cardinality: how many values there can be; None if nothing bounds it.
        uncorrelatable: the path of the highest list around it whose items have no identity.
    """

    declared: Declared | None
    cardinality: int | None
    uncorrelatable: str


@dataclass
class _Check:
    suppress_cost: bool
    blocked: set[str] = attribute(default_factory=set)
    form_errors: list[FieldError] = attribute(default_factory=list)
    errors: list[FieldError] = attribute(default_factory=list)
    _total: int = 0
    _dearest: list[tuple[int, str]] = attribute(default_factory=list)

    def walk(self, schema: Schema, path: str, place: _Place, *, typed: bool) -> None:
        below = _below(schema, place)
        element = None if place.declared is None else place.declared.element
        if schema.values is not None:
            inner = _Place(
                element or declared_type(schema.values, whole=schema.values.embedded), below, place.uncorrelatable
            )
            self.walk(schema.values, f"{path}.additionalProperties", inner, typed=typed)
        for name, sub in schema.properties.items():
            if sub.has_rules:
                inner = _Place(below_property(place.declared, name, sub), below, place.uncorrelatable)
                self.walk(sub, f"{path}.properties[{name}]", inner, typed=typed)
        if schema.items is not None:
            uncorrelatable = place.uncorrelatable or ("" if schema.list_type == "map" else path)
            inner = _Place(element or declared_type(schema.items, whole=schema.items.embedded), below, uncorrelatable)
            self.walk(schema.items, f"{path}.items", inner, typed=typed)
        if not schema.rules:
            return
        wrong = form_errors(schema, f"{path}.x-kubernetes-validations")
        self.form_errors += wrong
        self.blocked.update(_around(wrong))
        if typed and path not in self.blocked:
            self._compile(schema, f"{path}.x-kubernetes-validations", place)

    def _compile(self, schema: Schema, path: str, place: _Place) -> None:
        if place.declared is None:
            text = (
                "internal error: failed to construct type information for x-kubernetes-validations rules: "
                "unable to convert structural schema to CEL declarations"
            )
            self.errors.append(FieldError(ErrorType.INTERNAL, path, None, text))
            return
        for index, rule in enumerate(compile_rules(schema, place.declared)):
            self._check(rule, f"{path}[{index}]", place, place.declared)

    def _check(self, compiled: CompiledRule, path: str, place: _Place, declared: Declared) -> None:
        rule, expression, message = compiled.rule, compiled.expression, compiled.message
        cost = 0 if expression is None else estimate(expression.tree, declared)
        count = MAX_REQUEST // (declared.least + 1) if place.cardinality is None else place.cardinality
        self._spend("estimated rule cost", f"{path}.rule", min(cost * count, MOST))
        if compiled.failure:
            self.errors.append(field.invalid(f"{path}.rule", go_rule(rule), compiled.failure))
        if compiled.message_failure:
            error = field.invalid(f"{path}.messageExpression", go_rule(rule), compiled.message_failure)
            self.errors.append(error)
        elif message is not None:
            cost = estimate(message.tree, declared)
            self._spend("estimated messageExpression cost", f"{path}.messageExpression", cost)
        if compiled.is_transition:
            if place.uncorrelatable:
                text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
                error = field.invalid(f"{path}.rule", rule.rule, f"{text} {place.uncorrelatable}")
                self.errors.append(error)
        elif rule.optional_old_self is not None:
            text = "may not be set if oldSelf is not used in rule"
            self.errors.append(field.invalid(f"{path}.optionalOldSelf", rule.optional_old_self, text))

    def _spend(self, name: str, path: str, cost: int) -> None:
        if cost > RULE_LIMIT and not self.suppress_cost:
            self.errors.append(field.forbidden(path, _over(name, cost, RULE_LIMIT)))
        self._total = min(self._total + cost, MOST)
        if cost >= SCHEMA_LIMIT // 100:
            self._dearest.append((cost, path))
            self._dearest.sort(key=lambda each: -each[0])
            del self._dearest[_MOST_NAMED:]

    def total_errors(self, path: str) -> list[FieldError]:
        if self._total <= SCHEMA_LIMIT:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [field.forbidden(each, text) for _, each in self._dearest]
        return [*found, field.forbidden(path, _over(name, self._total, SCHEMA_LIMIT))]


def _over(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def _below(schema: Schema, place: _Place) -> int | None:
    """How many values there can be below each of these together."""
    if place.cardinality is None:
        return None
    factor: Any = 1
    if schema.type == "array":
        factor = schema.tree.get("maxItems")
    elif schema.type == "object" and schema.additional is not None:
        factor = schema.tree.get("maxProperties")
    return None if factor is None else min(place.cardinality * max(int(factor), 0), MOST)


def form_errors(schema: Schema, path: str) -> list[FieldError]:
    """What is wrong with the rules of one node before anything is compiled.

    Args:
        path: of its list of rules.
    """
    found: list[FieldError] = []
    for index, rule in enumerate(schema.rules):
        found += _form_errors(rule, f"{path}[{index}]", schema)
    return found


def _form_errors(rule: Rule, path: str, schema: Schema) -> list[FieldError]:
    found: list[FieldError] = []
    source, message = rule.rule.strip(), rule.message.strip()
    if not source:
        found.append(field.required(f"{path}.rule", "rule is not specified"))
    elif rule.message and not message:
        found.append(field.invalid(f"{path}.message", rule.message, "must be non-empty if specified"))
    elif _LINE_BREAK.search(message):
        found.append(field.invalid(f"{path}.message", rule.message, "must not contain line breaks"))
    elif _LINE_BREAK.search(source) and not message:
        text = "message must be specified if rule contains line breaks"
        found.append(field.required(f"{path}.message", text))
    if rule.message_expression and not rule.message_expression.strip():
        text = "messageExpression must be non-empty if specified"
        found.append(field.required(f"{path}.messageExpression", text))
    if rule.reason and rule.reason not in _REASONS:
        found.append(field.not_supported(f"{path}.reason", TypedString(rule.reason), _REASONS))
    if rule.field_path:
        found += [
            field.invalid(f"{path}.fieldPath", rule.field_path, text)
            for text, wrong in (
                ("must be non-empty if specified", not rule.field_path.strip()),
                ("must not contain line breaks", bool(_LINE_BREAK.search(rule.field_path))),
                ("must be a valid path", field_path(rule.field_path, schema) is None),
            )
            if wrong
        ]
    return found


class GoRule(msgspec.Struct, rename="pascal"):
    """A rule as Kubernetes' internal type of it prints."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def go_rule(rule: Rule) -> GoRule:
    return GoRule(
        rule.rule, rule.message, rule.message_expression, rule.reason or None, rule.field_path, rule.optional_old_self
    )
