"""Which writes an admission policy looks at, what it reads of them, and whether it stands as it is shipped."""

from __future__ import annotations

from typing import Any

from kubevouch.api.admissionregistration_v1.matching import MatchResources, NamedRuleWithOperations
from kubevouch.api.admissionregistration_v1.policies import (
    DENY,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubevouch.machinery.scheme import Resource


def about(resource: Resource[Any], *operations: str) -> MatchResources:
    """Those operations on objects of the resource, in every version of it; not on its subresources."""
    rule = NamedRuleWithOperations(
        operations=list(operations), api_groups=[resource.group], api_versions=["*"], resources=[resource.plural]
    )
    return MatchResources(resource_rules=[rule])


def annotation_of(which: str, name: str) -> str:
    """The expression for an annotation of ``object`` or ``oldObject``, which is there; empty without it."""
    annotations = f"{which}.metadata.annotations"
    return f"!has({annotations}) || !('{name}' in {annotations}) ? '' : {annotations}['{name}']"


def judges_as(
    shipped: ValidatingAdmissionPolicy, policy: ValidatingAdmissionPolicy, binding: ValidatingAdmissionPolicyBinding
) -> bool:
    """Whether a policy and its binding, as they are in a cluster, refuse by the expressions of the shipped one."""
    mine, theirs = shipped.spec, policy.spec
    return (
        [(each.name, each.expression) for each in theirs.variables]
        == [(each.name, each.expression) for each in mine.variables]
        and [each.expression for each in theirs.validations] == [each.expression for each in mine.validations]
        and [each.expression for each in theirs.match_conditions or ()]
        == [each.expression for each in mine.match_conditions or ()]
        and binding.spec.policy_name == shipped.metadata.name
        and DENY in binding.spec.validation_actions
    )
