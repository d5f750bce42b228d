"""ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding."""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.admissionregistration_v1.matching import (
    FAILURE_POLICIES,
    MatchCondition,
    MatchResources,
)
from kubevouch.api.meta_v1 import Condition
from kubevouch.machinery.declaration import Int64, Struct, always, whole, wire
from kubevouch.machinery.meta import LabelSelector, Object

AUDIT, DENY, WARN = "Audit", "Deny", "Warn"
VALIDATION_ACTIONS = (AUDIT, DENY, WARN)
ALLOW = "Allow"
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MAX_AUDIT_ANNOTATIONS = 20
MAX_VALUE_EXPRESSION = 5 * 1024


@whole
class ParamKind(Struct):
    """The kind of a policy's parameters."""

    api_version: Annotated[str, wire(1, "Its group and version.")] = ""
    kind: Annotated[str, wire(2, "Its kind.")] = ""


class Validation(Struct):
    """What must hold."""

    expression: Annotated[
        str,
        wire(
            1, "CEL over object, oldObject, request, params, namespaceObject, variables.", required=True,
            proto_name="Expression",
        ),
    ] = always(str)  # fmt: skip
    message: Annotated[str, wire(2, "What to say when it does not hold.")] = ""
    reason: Annotated[str | None, wire(3, "The reason of the refusal; Invalid if not set.")] = None
    message_expression: Annotated[str, wire(4, "CEL for what to say when it does not hold.")] = ""


class AuditAnnotation(Struct):
    """What to put on record."""

    key: Annotated[str, wire(1, "Follows the policy's name in the annotation's key.", required=True)] = always(str)
    value_expression: Annotated[str, wire(2, "CEL for the value; null writes none.", required=True)] = always(str)


class Variable(Struct):
    """A named expression, which those after it may use."""

    name: Annotated[str, wire(1, "Used as variables.name.", required=True, proto_name="Name")] = always(str)
    expression: Annotated[str, wire(2, "CEL for the value.", required=True, proto_name="Expression")] = always(str)


class ValidatingAdmissionPolicySpec(Struct):
    """The rules of a policy."""

    param_kind: Annotated[ParamKind | None, wire(1, "The kind of its parameters.")] = None
    match_constraints: Annotated[MatchResources | None, wire(2, "What it is about.")] = None
    validations: Annotated[list[Validation], wire(3, "What must hold.", list_type="atomic")] = []
    failure_policy: Annotated[
        str | None, wire(4, "What to do when it cannot be evaluated: Fail or Ignore.", enum=FAILURE_POLICIES)
    ] = None
    audit_annotations: Annotated[list[AuditAnnotation], wire(5, "What to put on record.", list_type="atomic")] = []
    match_conditions: Annotated[
        list[MatchCondition],
        wire(6, "All must hold.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    variables: Annotated[
        list[Variable],
        wire(7, "Named expressions.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []


class ExpressionWarning(Struct):
    """What is doubtful about an expression."""

    field_ref: Annotated[str, wire(2, "The path of the expression.", required=True)] = always(str)
    warning: Annotated[str, wire(3, "What is doubtful.", required=True)] = always(str)


class TypeChecking(Struct):
    """What a check of the expressions against the kinds found."""

    expression_warnings: Annotated[list[ExpressionWarning], wire(1, "The findings.", list_type="atomic")] = []


class ValidatingAdmissionPolicyStatus(Struct):
    """What is known about a policy."""

    observed_generation: Annotated[Int64, wire(1, "The generation that was looked at.")] = 0
    type_checking: Annotated[TypeChecking | None, wire(2, "What a check of types found.")] = None
    conditions: Annotated[list[Condition], wire(3, "Conditions.", list_type="map", map_keys=("type",))] = []


class ValidatingAdmissionPolicy(Object):
    """Rules for writes, in force where a binding says so."""

    spec: Annotated[ValidatingAdmissionPolicySpec, wire(2, "The rules.")] = always(ValidatingAdmissionPolicySpec)
    status: Annotated[ValidatingAdmissionPolicyStatus, wire(3, "What is known about it.")] = always(
        ValidatingAdmissionPolicyStatus
    )


@whole
class ParamRef(Struct):
    """The parameters that a binding uses: by name, or all that a selector finds."""

    name: Annotated[str, wire(1, "The object's name.")] = ""
    namespace: Annotated[str, wire(2, "Its namespace; that of the request if empty.")] = ""
    selector: Annotated[LabelSelector | None, wire(3, "Labels of the objects.")] = None
    parameter_not_found_action: Annotated[str | None, wire(4, "Allow or Deny when there is none.")] = None


class ValidatingAdmissionPolicyBindingSpec(Struct):
    """Where a policy is in force, and what follows."""

    policy_name: Annotated[str, wire(1, "The policy.")] = ""
    param_ref: Annotated[ParamRef | None, wire(2, "Its parameters.")] = None
    match_resources: Annotated[MatchResources | None, wire(3, "Narrows what it is about.")] = None
    validation_actions: Annotated[
        list[str], wire(4, "What follows when it does not hold.", list_type="set", enum=VALIDATION_ACTIONS)
    ] = []


class ValidatingAdmissionPolicyBinding(Object):
    """Puts a policy in force."""

    spec: Annotated[ValidatingAdmissionPolicyBindingSpec, wire(2, "Where and how.")] = always(
        ValidatingAdmissionPolicyBindingSpec
    )
