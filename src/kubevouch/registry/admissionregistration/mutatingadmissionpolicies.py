"""MutatingAdmissionPolicy and its binding (pkg/registry/admissionregistration/mutatingadmissionpolicy*; 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import mutating_policies, mutating_policy_rules
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.admissionregistration import CATEGORIES, params
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class PolicyStrategy(Strategy[MutatingAdmissionPolicy]):
    """Counts the changes of the spec; parameters are for those who may read them."""

    unconditional_update = False
    validates_elsewhere = True

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: MutatingAdmissionPolicy) -> None:
        kind, name = obj.spec.param_kind, obj.metadata.name
        await params.check_kind(self._access, ctx.user, kind, catalog.MUTATING_ADMISSION_POLICIES.gvk, name)

    async def check_update(self, ctx: Context, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def prepare_for_create(self, _ctx: Context, obj: MutatingAdmissionPolicy) -> MutatingAdmissionPolicy:
        counted: MutatingAdmissionPolicy = replace_metadata(obj, generation=1)
        return counted

    def validate(self, _ctx: Context, obj: MutatingAdmissionPolicy) -> list[FieldError]:
        return mutating_policy_rules.validate_policy(obj)

    def prepare_for_update(
        self, _ctx: Context, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy
    ) -> MutatingAdmissionPolicy:
        generation = old.metadata.generation + (new.spec != old.spec)
        counted: MutatingAdmissionPolicy = replace_metadata(new, generation=generation)
        return counted

    def validate_update(
        self, _ctx: Context, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy
    ) -> list[FieldError]:
        return mutating_policy_rules.validate_policy(new, old)


class BindingStrategy(Strategy[MutatingAdmissionPolicyBinding]):
    """As that of policies."""

    unconditional_update = False

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: MutatingAdmissionPolicyBinding) -> None:
        ref, name = obj.spec.param_ref, obj.metadata.name
        await params.check_ref(self._access, ctx.user, ref, catalog.MUTATING_ADMISSION_POLICY_BINDINGS.gvk, name)

    async def check_update(
        self, ctx: Context, new: MutatingAdmissionPolicyBinding, old: MutatingAdmissionPolicyBinding
    ) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def prepare_for_create(self, _ctx: Context, obj: MutatingAdmissionPolicyBinding) -> MutatingAdmissionPolicyBinding:
        counted: MutatingAdmissionPolicyBinding = replace_metadata(obj, generation=1)
        return counted

    def validate(self, _ctx: Context, obj: MutatingAdmissionPolicyBinding) -> list[FieldError]:
        return mutating_policy_rules.validate_binding(obj)

    def prepare_for_update(
        self, _ctx: Context, new: MutatingAdmissionPolicyBinding, old: MutatingAdmissionPolicyBinding
    ) -> MutatingAdmissionPolicyBinding:
        generation = old.metadata.generation + (new.spec != old.spec)
        counted: MutatingAdmissionPolicyBinding = replace_metadata(new, generation=generation)
        return counted

    def validate_update(
        self, _ctx: Context, new: MutatingAdmissionPolicyBinding, _old: MutatingAdmissionPolicyBinding
    ) -> list[FieldError]:
        return mutating_policy_rules.validate_binding(new)


def _policy_cells(obj: MutatingAdmissionPolicy, now: dt.datetime) -> list[object]:
    spec = obj.spec
    kind = params.kind_text(spec.param_kind)
    return [obj.metadata.name, len(spec.mutations), kind, age(obj.metadata.creation_timestamp, now)]


def _binding_cells(obj: MutatingAdmissionPolicyBinding, now: dt.datetime) -> list[object]:
    spec = obj.spec
    ref = params.ref_text(spec.param_ref)
    return [obj.metadata.name, spec.policy_name, ref, age(obj.metadata.creation_timestamp, now)]


def definition(access: ParamAccess) -> Definition[MutatingAdmissionPolicy]:
    """The policies; ``access`` is asked who may refer to parameters."""
    return Definition(
        resource=catalog.MUTATING_ADMISSION_POLICIES,
        defaulter=mutating_policies.default_policy,
        strategy=PolicyStrategy(access),
        printer=Printer(
            (
                NAME,
                Column("Mutations", "integer", description="How many mutations it has."),
                Column("ParamKind", description="The kind of its parameters."),
                AGE,
            ),
            _policy_cells,
        ),
        categories=CATEGORIES,
    )


def binding_definition(access: ParamAccess) -> Definition[MutatingAdmissionPolicyBinding]:
    """The bindings; ``access`` as with policies."""
    return Definition(
        resource=catalog.MUTATING_ADMISSION_POLICY_BINDINGS,
        defaulter=mutating_policies.default_binding,
        strategy=BindingStrategy(access),
        printer=Printer(
            (
                NAME,
                Column("PolicyName", description="The policy that it puts in force."),
                Column("ParamRef", description="The parameters that it uses."),
                AGE,
            ),
            _binding_cells,
        ),
        categories=CATEGORIES,
    )
