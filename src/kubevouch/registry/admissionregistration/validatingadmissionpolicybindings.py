"""ValidatingAdmissionPolicyBinding (pkg/registry/admissionregistration; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policies, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicyBinding
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.admissionregistration import CATEGORIES, params
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class BindingStrategy(Strategy[ValidatingAdmissionPolicyBinding]):
    """Counts the changes of the spec; parameters are for those who may read them."""

    unconditional_update = False

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: ValidatingAdmissionPolicyBinding) -> None:
        ref, name = obj.spec.param_ref, obj.metadata.name
        await params.check_ref(self._access, ctx.user, ref, catalog.VALIDATING_ADMISSION_POLICY_BINDINGS.gvk, name)

    async def check_update(
        self, ctx: Context, new: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding
    ) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def prepare_for_create(
        self, _ctx: Context, obj: ValidatingAdmissionPolicyBinding
    ) -> ValidatingAdmissionPolicyBinding:
        counted: ValidatingAdmissionPolicyBinding = replace_metadata(obj, generation=1)
        return counted

    def validate(self, _ctx: Context, obj: ValidatingAdmissionPolicyBinding) -> list[FieldError]:
        return policy_rules.validate_binding(obj)

    def prepare_for_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicyBinding, old: ValidatingAdmissionPolicyBinding
    ) -> ValidatingAdmissionPolicyBinding:
        generation = old.metadata.generation + (new.spec != old.spec)
        counted: ValidatingAdmissionPolicyBinding = replace_metadata(new, generation=generation)
        return counted

    def validate_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicyBinding, _old: ValidatingAdmissionPolicyBinding
    ) -> list[FieldError]:
        return policy_rules.validate_binding(new)


def _cells(obj: ValidatingAdmissionPolicyBinding, now: dt.datetime) -> list[object]:
    spec = obj.spec
    ref = params.ref_text(spec.param_ref)
    return [obj.metadata.name, spec.policy_name, ref, age(obj.metadata.creation_timestamp, now)]


def definition(access: ParamAccess) -> Definition[ValidatingAdmissionPolicyBinding]:
    """The resource; ``access`` is asked who may refer to parameters."""
    return Definition(
        resource=catalog.VALIDATING_ADMISSION_POLICY_BINDINGS,
        defaulter=policies.default_binding,
        strategy=BindingStrategy(access),
        printer=Printer(
            (
                NAME,
                Column("PolicyName", description="The policy that it puts in force."),
                Column("ParamRef", description="The parameters that it uses."),
                AGE,
            ),
            _cells,
        ),
        categories=CATEGORIES,
    )
