"""What is filled in of policies and their bindings, of those that validate and those that change alike."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubevouch.api.admissionregistration_v1.matching import FAIL, default_match_resources, or_else
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from kubevouch.api.admissionregistration_v1.policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)

P = TypeVar("P", ValidatingAdmissionPolicy, MutatingAdmissionPolicy)
B = TypeVar("B", ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding)


def default_policy(policy: P) -> P:
    spec = msgspec.structs.replace(
        policy.spec,
        failure_policy=or_else(policy.spec.failure_policy, FAIL),
        match_constraints=default_match_resources(policy.spec.match_constraints),
    )
    return msgspec.structs.replace(policy, spec=spec)


def default_binding(binding: B) -> B:
    match = default_match_resources(binding.spec.match_resources)
    return msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, match_resources=match))
