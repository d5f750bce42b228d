"""ValidatingAdmissionPolicyBinding (pkg/registry/admissionregistration; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policies, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ParamRef, ValidatingAdmissionPolicyBinding
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery import errors, field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.selectors import label_selector_of
from kubevouch.registry.admissionregistration import CATEGORIES
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class BindingStrategy(Strategy[ValidatingAdmissionPolicyBinding]):
    """Counts the changes of the spec; parameters are for those who may read them."""

    unconditional_update = False

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: ValidatingAdmissionPolicyBinding) -> None:
        ref = obj.spec.param_ref
        if ref is None or await self._access.may_read_objects(ctx.user, ref.namespace, ref.name):
            return
        verb = "get" if ref.name else "list"
        why = f'user {ctx.user.name} must have "{verb}" permission on the objects of the referenced paramRef'
        fault = field.forbidden("spec.paramRef", why)
        raise errors.invalid(catalog.VALIDATING_ADMISSION_POLICY_BINDINGS.gvk, obj.metadata.name, [fault])

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


def _params(ref: ParamRef | None) -> str:
    if ref is None:
        return UNSET
    if ref.name:
        return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
    return UNSET if ref.selector is None else str(label_selector_of(ref.selector))


def _cells(obj: ValidatingAdmissionPolicyBinding, now: dt.datetime) -> list[object]:
    spec = obj.spec
    return [obj.metadata.name, spec.policy_name, _params(spec.param_ref), age(obj.metadata.creation_timestamp, now)]


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
