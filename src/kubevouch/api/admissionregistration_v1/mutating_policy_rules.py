"""What is wrong with mutating policies and their bindings."""

from __future__ import annotations

from collections.abc import Mapping

from kubevouch.api.admissionregistration_v1 import mutating_policies
from kubevouch.api.admissionregistration_v1.expressions import PATCH_RESULTS, expression_errors
from kubevouch.api.admissionregistration_v1.matching_rules import validate_match_resources
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    APPLY_CONFIGURATION,
    JSON_PATCH,
    PATCH_TYPES,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    Mutation,
)
from kubevouch.api.admissionregistration_v1.policy_rules import operation_errors, reference_errors, spec_errors
from kubevouch.api.admissionregistration_v1.webhooks import IF_NEEDED, NEVER
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError, TypedString


def validate_policy(policy: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy | None = None) -> list[FieldError]:
    """What is wrong with a policy, metadata apart; conditions that were there before are not looked at again."""
    spec = policy.spec
    errors, known = spec_errors(spec, None if old is None else old.spec, mutating_policies.OPERATIONS)
    if not spec.mutations:
        errors.append(field.required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(spec.mutations):
        errors += _mutation_errors(mutation, known, f"spec.mutations[{index}]", spec.param_kind is not None)
    path, choice = "spec.reinvocationPolicy", spec.reinvocation_policy
    if not choice:
        errors.append(field.required(path))
    elif choice not in (NEVER, IF_NEEDED):
        errors.append(field.not_supported(path, TypedString(choice), (NEVER, IF_NEEDED)))
    return errors


def _mutation_errors(mutation: Mutation, variables: Mapping[str, str], path: str, params: bool) -> list[FieldError]:
    chosen = mutation.patch_type
    if not chosen:
        return [field.required(f"{path}.patchType")]
    if chosen not in PATCH_TYPES:
        return [field.not_supported(f"{path}.patchType", TypedString(chosen), PATCH_TYPES)]
    members = {
        APPLY_CONFIGURATION: ("applyConfiguration", mutation.apply_configuration),
        JSON_PATCH: ("jsonPatch", mutation.json_patch),
    }
    errors: list[FieldError] = []
    name, patch = members.pop(chosen)
    if patch is None:
        errors.append(field.required(f"{path}.{name}", f"must be specified when patchType is {chosen}"))
    elif not (source := patch.expression.strip()):
        errors.append(field.required(f"{path}.{name}.expression"))
    else:
        result = (PATCH_RESULTS[chosen],)
        where = f"{path}.{name}.expression"
        errors += expression_errors(where, source, result, params=params, variables=variables, patches=True)
    for other, unwanted in members.values():
        if unwanted is not None:
            why = f"must not be specified when patchType is {chosen}"
            errors.append(field.invalid(f"{path}.{other}", f"{{{other}}}", why))
    return errors


def validate_binding(binding: MutatingAdmissionPolicyBinding) -> list[FieldError]:
    """What is wrong with a binding, metadata apart."""
    spec, path = binding.spec, "spec.matchResources"
    errors = reference_errors(spec.policy_name, spec.param_ref)
    if spec.match_resources is None:
        return errors
    errors += validate_match_resources(spec.match_resources, path)
    return errors + operation_errors(spec.match_resources, path, mutating_policies.OPERATIONS)
