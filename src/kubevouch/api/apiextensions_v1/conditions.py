"""What can be said of a definition, and how that changes.

Source: k8s.io/apiextensions-apiserver pkg/apihelpers/helpers.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, CustomResourceDefinitionCondition
from kubevouch.machinery.text.times import Time

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
NON_STRUCTURAL_SCHEMA = "NonStructuralSchema"
TERMINATING = "Terminating"
API_APPROVED = "KubernetesAPIApprovalPolicyConformant"
TRUE, FALSE = "True", "False"

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a definition until its objects are gone."""


class Finding(NamedTuple):
    """A condition without its time."""

    type: str
    status: str
    reason: str
    message: str

    def is_said_by(self, condition: CustomResourceDefinitionCondition | None) -> bool:
        """Whether ``condition`` says the same."""
        return condition is not None and self == (condition.type, condition.status, condition.reason, condition.message)


def condition_of(definition: CustomResourceDefinition, kind: str) -> CustomResourceDefinitionCondition | None:
    """The condition of that type, if there is one."""
    return next((each for each in definition.status.conditions or () if each.type == kind), None)


def is_true(definition: CustomResourceDefinition, kind: str) -> bool:
    """Whether there is a condition of that type with the status True."""
    found = condition_of(definition, kind)
    return found is not None and found.status == TRUE


def with_finding(definition: CustomResourceDefinition, finding: Finding, now: Time) -> CustomResourceDefinition:
    """The definition once that is said of it; the time stays while the status does."""
    conditions = list(definition.status.conditions or ())
    said = CustomResourceDefinitionCondition(
        type=finding.type,
        status=finding.status,
        last_transition_time=now,
        reason=finding.reason,
        message=finding.message,
    )
    for index, known in enumerate(conditions):
        if known.type == finding.type:
            if known.status == finding.status and known.last_transition_time is not None:
                said = msgspec.structs.replace(said, last_transition_time=known.last_transition_time)
            conditions[index] = said
            break
    else:
        conditions.append(said)
    return _with_conditions(definition, conditions)


def without_condition(definition: CustomResourceDefinition, kind: str) -> CustomResourceDefinition:
    """The definition when nothing is said of it in that respect."""
    return _with_conditions(definition, [each for each in definition.status.conditions or () if each.type != kind])


def _with_conditions(
    definition: CustomResourceDefinition, conditions: list[CustomResourceDefinitionCondition]
) -> CustomResourceDefinition:
    status = msgspec.structs.replace(definition.status, conditions=conditions)
    return msgspec.structs.replace(definition, status=status)
