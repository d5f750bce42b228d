"""The guards for what an API server serves: MutatingAdmissionPolicies write down who writes; older servers have none.

Where nothing can write it down, a ValidatingAdmissionPolicy of v1 (since Kubernetes 1.30) asks the writer to have done
so, to the letter. Commands of ours do; others are told in the refusal what to write. Who reads these records believes
them alike.

Source: docs/adr/0063-guards-by-what-the-server-serves.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from kubevouch.api.admissionregistration_v1.mutating_policies import MutatingAdmissionPolicy
from kubevouch.api.admissionregistration_v1.policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from kubevouch.api.catalog import MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
from kubevouch.api.kubevouch_v1alpha1.guarded_writes import annotation_of, judges_as
from kubevouch.api.kubevouch_v1alpha1.guards import (
    AUTHORS_ANNOTATION,
    AUTHORS_NOW,
    GUARDS,
    PUTS_BACK,
    REVOKER_NOW,
    SHOWN_CREDENTIAL,
    guard,
)
from kubevouch.api.kubevouch_v1alpha1.writer_guards import (
    RECORDS_PREFIX,
    WRITER_ANNOTATION,
    WRITER_NOW,
    WRITERS,
)
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.scheme import Resource

MUTATING_BETA = replace(MUTATING_ADMISSION_POLICIES, version="v1beta1")
MUTATING_BINDINGS_BETA = replace(MUTATING_ADMISSION_POLICY_BINDINGS, version="v1beta1")
_BETAS: Mapping[Resource[Any], Resource[Any]] = {
    MUTATING_ADMISSION_POLICIES: MUTATING_BETA,
    MUTATING_ADMISSION_POLICY_BINDINGS: MUTATING_BINDINGS_BETA,
}


class GuardVersion(StrEnum):
    """By which kinds of admissionregistration.k8s.io the guards hold."""

    MUTATING = "MutatingAdmissionPolicy v1"
    """Kubernetes 1.36 and newer."""
    MUTATING_BETA = "MutatingAdmissionPolicy v1beta1"
    """1.34 and 1.35, where gate and version have been turned on."""
    VALIDATING = "ValidatingAdmissionPolicy v1"
    """1.30 and newer."""
    NONE = "none"
    """What rests on a guard is off there."""


def version_for(major: int, minor: int) -> GuardVersion:
    """What a Kubernetes of that version serves when nobody has turned anything on."""
    if (major, minor) >= (1, 36):
        return GuardVersion.MUTATING
    return GuardVersion.VALIDATING if (major, minor) >= (1, 30) else GuardVersion.NONE


def guards_for(version: GuardVersion) -> Sequence[tuple[Resource[Any], Object]]:
    """Policies and their bindings."""
    if version is GuardVersion.NONE:
        return ()
    if version is GuardVersion.MUTATING:
        return GUARDS
    if version is GuardVersion.MUTATING_BETA:
        return tuple((_BETAS.get(resource, resource), obj) for resource, obj in GUARDS)
    kept = tuple((resource, obj) for resource, obj in GUARDS if resource not in _BETAS)
    return (*kept, *(each for policy in RECORDS for each in guard(policy)))


def is_guard(policy: ValidatingAdmissionPolicy, binding: ValidatingAdmissionPolicyBinding) -> bool:
    """Whether these hold every writer, as the guard of that name does in this version."""
    mine = _VALIDATING.get(policy.metadata.name)
    return (
        mine is not None and policy.spec.failure_policy == mine.spec.failure_policy and judges_as(mine, policy, binding)
    )


def _annotation(name: str, now: str, sent: str) -> Validation:
    # With a line feed the message would not be told: it is shown as a client types it.
    shown = f"({now}).replace('\\n', '\\\\n')"
    return Validation(
        expression=f"{PUTS_BACK} || {sent} == ({now})",
        message_expression=f"'{_NO_WRITER}; or set the annotation {name} to (with line feeds): ' + {shown}",
        message=f"the annotation {name} has to say who writes; kubevouch policy apply sets it",
        reason="Forbidden",
    )


def _sent(name: str) -> str:
    return f"({annotation_of('object', name)})"


def _field(name: str, now: str) -> Validation:
    return Validation(
        expression=f"(!has(object.spec.{name}) ? '' : object.spec.{name}) == ({now})",
        message_expression=f"'this API server fills in nothing: spec.{name} has to be ' + "
        f"(({now}) == '' ? 'left out' : ({now}))",
        message=f"spec.{name} has to say who creates it",
        reason="Forbidden",
    )


_NO_WRITER = "this API server writes down no writers: use kubevouch policy apply"
_VALIDATIONS = {
    "approvers.kubevouch.io": _field("credential", SHOWN_CREDENTIAL),
    "authors.kubevouch.io": _annotation(AUTHORS_ANNOTATION, AUTHORS_NOW, _sent(AUTHORS_ANNOTATION)),
    "revokers.kubevouch.io": _field("requestedBy", REVOKER_NOW),
    "challenges.kubevouch.io": _field("requester", "request.userInfo.username"),
    WRITERS: _annotation(WRITER_ANNOTATION, WRITER_NOW, "variables.sent"),
}
_MUTATING = {obj.metadata.name: obj for _, obj in GUARDS if isinstance(obj, MutatingAdmissionPolicy)}


def _record(name: str) -> ValidatingAdmissionPolicy:
    former = _MUTATING[name].spec
    return ValidatingAdmissionPolicy(
        metadata=ObjectMeta(name=f"{RECORDS_PREFIX}{name}"),
        spec=ValidatingAdmissionPolicySpec(
            match_constraints=former.match_constraints,
            variables=list(former.variables),
            validations=[_VALIDATIONS[name]],
        ),
    )


RECORDS: Sequence[ValidatingAdmissionPolicy] = tuple(map(_record, _MUTATING))
"""One for each MutatingAdmissionPolicy."""
_VALIDATING = {
    obj.metadata.name: obj
    for _, obj in guards_for(GuardVersion.VALIDATING)
    if isinstance(obj, ValidatingAdmissionPolicy)
}
