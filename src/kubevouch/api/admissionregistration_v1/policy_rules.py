"""What is wrong with policies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Protocol

from kubevouch.api.admissionregistration_v1.expressions import compile_expression, expression_errors
from kubevouch.api.admissionregistration_v1.matching import FAILURE_POLICIES, MatchCondition, MatchResources
from kubevouch.api.admissionregistration_v1.matching_rules import (
    choice_errors,
    validate_match_conditions,
    validate_match_resources,
)
from kubevouch.api.admissionregistration_v1.policies import (
    ALLOW,
    DENY,
    MAX_AUDIT_ANNOTATIONS,
    MAX_VALUE_EXPRESSION,
    REASONS,
    VALIDATION_ACTIONS,
    WARN,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
    Variable,
)
from kubevouch.api.meta_v1 import validate_conditions, validate_label_selector
from kubevouch.cel.environment import ANY, BOOL, NULL, STRING, ExpressionError
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.scheme import GroupVersion
from kubevouch.machinery.text import names

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while")
)  # fmt: skip


# ------------------------------------------------------------------ validation of policies


def validate_policy(
    policy: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None = None
) -> list[FieldError]:
    """What is wrong with a policy, metadata apart; conditions that were there before are not looked at again."""
    spec = policy.spec
    errors, known = spec_errors(spec, None if old is None else old.spec)
    params = spec.param_kind is not None
    if not spec.validations and not spec.audit_annotations:
        why = "validations or auditAnnotations must contain at least one item"
        return [*errors, field.required("spec.validations", why), field.required("spec.auditAnnotations", why)]
    for index, validation in enumerate(spec.validations):
        errors += _validation_errors(validation, known, f"spec.validations[{index}]", params)
    return errors + _annotation_errors(policy, known, params)


class PolicySpec(Protocol):
    """What policies of both kinds have in common."""

    failure_policy: str | None
    param_kind: ParamKind | None
    match_constraints: MatchResources | None
    match_conditions: list[MatchCondition]
    variables: list[Variable]


def spec_errors(
    spec: PolicySpec, former: PolicySpec | None, operations: Collection[str] = ()
) -> tuple[list[FieldError], dict[str, str]]:
    """What is wrong with what all policies have, and the types of the variables that others may use.

    Args:
        former: as it was; its conditions are not looked at again.
        operations: those that may be matched; empty for all.
    """
    errors: list[FieldError] = []
    if spec.failure_policy is None:
        errors.append(field.required("spec.failurePolicy"))
    errors += choice_errors("spec.failurePolicy", spec.failure_policy, FAILURE_POLICIES)
    if spec.param_kind is not None:
        errors += _param_kind_errors(spec.param_kind, "spec.paramKind")
    if spec.match_constraints is None:
        errors.append(field.required("spec.matchConstraints"))
    else:
        errors += validate_match_resources(spec.match_constraints, "spec.matchConstraints")
        if not spec.match_constraints.resource_rules:
            errors.append(field.required("spec.matchConstraints.resourceRules"))
        errors += operation_errors(spec.match_constraints, "spec.matchConstraints", operations)
    params = spec.param_kind is not None
    same = former and (former.param_kind, former.match_conditions) == (spec.param_kind, spec.match_conditions)
    if not same:
        errors += validate_match_conditions(spec.match_conditions, "spec.matchConditions", params=params)
    known: dict[str, str] = {}
    for index, variable in enumerate(spec.variables):
        errors += _variable_errors(variable, known, f"spec.variables[{index}]", params)
    return errors, known


def operation_errors(match: MatchResources, path: str, operations: Collection[str]) -> list[FieldError]:
    """Operations that cannot be matched. Kubernetes' path has no index."""
    return [
        field.not_supported(f"{path}.resourceRules.operations", TypedString(operation), sorted(operations))
        for rule in match.resource_rules
        for operation in rule.operations
        if operations and operation not in operations
    ]


def _param_kind_errors(kind: ParamKind, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    where = f"{path}.apiVersion"
    if not kind.api_version:
        errors.append(field.required(where))
    else:
        try:
            group, version = GroupVersion.parse("" if kind.api_version == "/" else kind.api_version)
        except ValueError as err:
            errors.append(field.invalid(where, kind.api_version, str(err)))
        else:
            wrong = names.subdomain(group) if group else []
            if wrong:
                errors.append(field.invalid(where, group, ",".join(wrong)))
            if not version:
                errors.append(field.invalid(where, kind.api_version, "version must be specified"))
            elif names.dns_1035_label(version):
                errors.append(field.invalid(where, version, ",".join(names.dns_1035_label(version))))
    if not kind.kind:
        errors.append(field.required(f"{path}.kind"))
    else:
        wrong = names.dns_1035_label(kind.kind.lower())
        if wrong:
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(field.invalid(f"{path}.kind", kind.kind, why))
    return errors


def _is_identifier(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and name not in _RESERVED


def _variable_errors(variable: Variable, known: dict[str, str], path: str, params: bool) -> list[FieldError]:
    """Besides, puts a variable that can be used among those that are known, with its type."""
    errors: list[FieldError] = []
    if not variable.name.strip():
        errors.append(field.required(f"{path}.name", "name is not specified"))
    elif not _is_identifier(variable.name):
        errors.append(field.invalid(f"{path}.name", variable.name, "name is not a valid CEL identifier"))
    if not variable.expression.strip():
        return [*errors, field.required(f"{path}.expression", "expression is not specified")]
    result_type = ANY
    try:
        result_type = compile_expression(variable.expression, params=params, variables=known).result_type
    except ExpressionError as err:
        errors.append(field.invalid(f"{path}.expression", variable.expression, str(err)))
    if _is_identifier(variable.name):
        known[variable.name] = result_type
    return errors


def _validation_errors(
    validation: Validation, variables: Mapping[str, str], path: str, params: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    where = f"{path}.expression"
    if not validation.expression.strip():
        errors.append(field.required(where, "expression is not specified"))
    else:
        errors += expression_errors(where, validation.expression, (BOOL,), params=params, variables=variables)
    where = f"{path}.messageExpression"
    if validation.message_expression and not validation.message_expression.strip():
        errors.append(field.invalid(where, validation.message_expression, "must be non-empty if specified"))
    elif validation.message_expression:
        source = validation.message_expression
        errors += expression_errors(where, source, (STRING,), params=params, variables=variables)
    message = validation.message.strip()
    if validation.message and not message:
        why = "message must be non-empty if specified"
        errors.append(field.invalid(f"{path}.message", validation.message, why))
    elif "\n" in message or "\r" in message:
        errors.append(field.invalid(f"{path}.message", validation.message, "message must not contain line breaks"))
    return errors + choice_errors(f"{path}.reason", validation.reason, REASONS)


def _annotation_errors(
    policy: ValidatingAdmissionPolicy, variables: Mapping[str, str], params: bool
) -> list[FieldError]:
    annotations, name = policy.spec.audit_annotations, policy.metadata.name
    errors: list[FieldError] = []
    if len(annotations) > MAX_AUDIT_ANNOTATIONS:
        why = f"must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations"
        errors.append(field.invalid("spec.auditAnnotations", annotations, why))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.key
        if name:
            errors += [
                field.invalid(f"{path}.key", f"{name}/{key}", why) for why in names.qualified_name(f"{name}/{key}")
            ]
        else:
            errors.append(field.invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
        source = annotation.value_expression.strip()
        where = f"{path}.valueExpression"
        if not source:
            errors.append(field.required(where, "valueExpression is not specified"))
        elif len(source) > MAX_VALUE_EXPRESSION:
            errors.append(field.required(where, f"must not exceed {MAX_VALUE_EXPRESSION} bytes in length"))
        else:
            errors += expression_errors(where, source, (STRING, NULL), params=params, variables=variables)
        if key in seen:
            errors.append(field.duplicate(f"{path}.key", key))
        seen.add(key)
    return errors


def validate_policy_status(policy: ValidatingAdmissionPolicy) -> list[FieldError]:
    """What is wrong with a status that somebody wrote."""
    checking = policy.status.type_checking
    errors: list[FieldError] = []
    for index, warning in enumerate(checking.expression_warnings if checking else ()):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        if not warning.warning:
            errors.append(field.required(f"{path}.warning"))
        if not warning.field_ref.strip():
            errors.append(field.required(f"{path}.fieldRef"))
    return errors + validate_conditions(policy.status.conditions, "status.conditions")


# ------------------------------------------------------------------ validation of bindings


def validate_binding(binding: ValidatingAdmissionPolicyBinding) -> list[FieldError]:
    """What is wrong with a binding, metadata apart."""
    spec = binding.spec
    errors = reference_errors(spec.policy_name, spec.param_ref)
    # Kubernetes' own spelling.
    errors += validate_match_resources(spec.match_resources, "spec.matchResouces")
    return errors + _action_errors(spec.validation_actions, "spec.validationActions")


def reference_errors(policy_name: str, ref: ParamRef | None) -> list[FieldError]:
    """What is wrong with what a binding refers to."""
    errors: list[FieldError] = []
    if not policy_name:
        errors.append(field.required("spec.policyName"))
    else:
        errors += [field.invalid("spec.policyName", policy_name, why) for why in names.subdomain(policy_name)]
    return errors + _param_ref_errors(ref, "spec.paramRef")


def _param_ref_errors(ref: ParamRef | None, path: str) -> list[FieldError]:
    if ref is None:
        return []
    errors: list[FieldError] = []
    exclusive = "name and selector are mutually exclusive"
    if ref.name:
        errors += [field.invalid(f"{path}.name", ref.name, why) for why in names.path_segment_name(ref.name, False)]
        if ref.selector is not None:
            errors.append(field.forbidden(f"{path}.name", exclusive))
    if ref.selector is not None:
        errors += validate_label_selector(ref.selector, f"{path}.selector")
        if ref.name:
            errors.append(field.forbidden(f"{path}.selector", exclusive))
    if not ref.name and ref.selector is None:
        errors.append(field.required(path, "one of name or selector must be specified"))
    where, action = f"{path}.parameterNotFoundAction", ref.parameter_not_found_action
    if not action:
        errors.append(field.required(where))
    elif action not in (DENY, ALLOW):
        errors.append(field.not_supported(where, TypedString(action), (DENY, ALLOW)))
    return errors


def _action_errors(actions: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, action in enumerate(actions):
        errors += choice_errors(f"{path}[{index}]", action, VALIDATION_ACTIONS)
        if action in actions[:index]:
            errors.append(field.duplicate(f"{path}[{index}]", TypedString(action)))
    if DENY in actions and WARN in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        errors.append(field.invalid(path, actions, why))
    if not actions:
        errors.append(field.required(path, "at least one validation action is required"))
    return errors
