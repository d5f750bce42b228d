"""MutatingAdmissionPolicy and MutatingAdmissionPolicyBinding."""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.admissionregistration_v1.matching import (
    FAILURE_POLICIES,
    MatchCondition,
    MatchResources,
)
from kubevouch.api.admissionregistration_v1.policies import ParamKind, ParamRef, Variable
from kubevouch.api.admissionregistration_v1.webhooks import REINVOCATION_POLICIES
from kubevouch.machinery.declaration import Struct, always, wire
from kubevouch.machinery.meta import Object

APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
PATCH_TYPES = (APPLY_CONFIGURATION, JSON_PATCH)
OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
"""What can be mutated: a deletion brings no object."""


class ApplyConfiguration(Struct):
    """An expression that makes an object to merge."""

    expression: Annotated[str, wire(1, "CEL for an Object{…} with the fields to set.")] = ""


class JSONPatch(Struct):
    """An expression that makes a JSON patch."""

    expression: Annotated[str, wire(1, "CEL for a list of JSONPatch{op, path, from, value}.")] = ""


class Mutation(Struct):
    """How to change the object."""

    patch_type: Annotated[
        str, wire(2, "ApplyConfiguration or JSONPatch.", required=True, enum=PATCH_TYPES)
    ] = always(str)  # fmt: skip
    apply_configuration: Annotated[ApplyConfiguration | None, wire(3, "What to merge into the object.")] = None
    json_patch: Annotated[JSONPatch | None, wire(4, "What to do to the object, step by step.")] = None


class MutatingAdmissionPolicySpec(Struct):
    """What a policy changes."""

    param_kind: Annotated[ParamKind | None, wire(1, "The kind of its parameters.")] = None
    match_constraints: Annotated[MatchResources | None, wire(2, "What it is about.")] = None
    variables: Annotated[list[Variable], wire(3, "Named expressions.", list_type="atomic")] = []
    mutations: Annotated[list[Mutation], wire(4, "What it does, in order.", list_type="atomic")] = []
    failure_policy: Annotated[
        str | None, wire(5, "What to do when it cannot be evaluated: Fail or Ignore.", enum=FAILURE_POLICIES)
    ] = None
    match_conditions: Annotated[
        list[MatchCondition],
        wire(6, "All must hold.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    reinvocation_policy: Annotated[
        str, wire(7, "Never, or IfNeeded: again when others changed the object after it.", enum=REINVOCATION_POLICIES)
    ] = ""


class MutatingAdmissionPolicy(Object):
    """Changes to what is written, in force where a binding says so."""

    spec: Annotated[MutatingAdmissionPolicySpec, wire(2, "What it changes.")] = always(MutatingAdmissionPolicySpec)


class MutatingAdmissionPolicyBindingSpec(Struct):
    """Where a policy is in force."""

    policy_name: Annotated[str, wire(1, "The policy.")] = ""
    param_ref: Annotated[ParamRef | None, wire(2, "Its parameters.")] = None
    match_resources: Annotated[MatchResources | None, wire(3, "Narrows what it is about.")] = None


class MutatingAdmissionPolicyBinding(Object):
    """Puts a policy in force."""

    spec: Annotated[MutatingAdmissionPolicyBindingSpec, wire(2, "Where.")] = always(MutatingAdmissionPolicyBindingSpec)
