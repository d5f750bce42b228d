"""ValidatingAdmissionPolicy (pkg/registry/admissionregistration/validatingadmissionpolicy; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policy_defaults, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery.field import FieldError
from kubevouch.registry.admissionregistration import CATEGORIES, params
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, age


class PolicyStrategy(CountingStrategy[ValidatingAdmissionPolicy]):
    """Counts the changes of the spec; status belongs to its subresource; parameters are for those who may read them."""

    unconditional_update = False
    validates_elsewhere = True
    reset_fields = (("status",),)

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: ValidatingAdmissionPolicy) -> None:
        kind, name = obj.spec.param_kind, obj.metadata.name
        await params.check_kind(self._access, ctx.user, kind, catalog.VALIDATING_ADMISSION_POLICIES.gvk, name)

    async def check_update(self, ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def prepare_for_create(self, ctx: Context, obj: ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicy:
        return super().prepare_for_create(ctx, msgspec.structs.replace(obj, status=ValidatingAdmissionPolicyStatus()))

    def validate(self, _ctx: Context, obj: ValidatingAdmissionPolicy) -> list[FieldError]:
        return policy_rules.validate_policy(obj)

    def prepare_for_update(
        self, ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> ValidatingAdmissionPolicy:
        return super().prepare_for_update(ctx, msgspec.structs.replace(new, status=old.status), old)

    def validate_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> list[FieldError]:
        return policy_rules.validate_policy(new, old)


class PolicyStatusStrategy(Strategy[ValidatingAdmissionPolicy]):
    """``/status``: only the status changes."""

    unconditional_update = False
    reset_fields = (("spec",),)

    def prepare_for_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> ValidatingAdmissionPolicy:
        return msgspec.structs.replace(new, spec=old.spec)

    def validate_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicy, _old: ValidatingAdmissionPolicy
    ) -> list[FieldError]:
        return policy_rules.validate_policy_status(new)


def _cells(obj: ValidatingAdmissionPolicy, now: dt.datetime) -> list[object]:
    spec = obj.spec
    kind = params.kind_text(spec.param_kind)
    return [obj.metadata.name, len(spec.validations), kind, age(obj.metadata.creation_timestamp, now)]


def definition(access: ParamAccess) -> Definition[ValidatingAdmissionPolicy]:
    """The resource; ``access`` is asked who may refer to parameters."""
    return Definition(
        resource=catalog.VALIDATING_ADMISSION_POLICIES,
        defaulter=policy_defaults.default_policy,
        strategy=PolicyStrategy(access),
        subresources=(Subresource("status", PolicyStatusStrategy()),),
        printer=Printer(
            (
                NAME,
                Column("Validations", "integer", description="How many validations it has."),
                Column("ParamKind", description="The kind of its parameters."),
                AGE,
            ),
            _cells,
        ),
        categories=CATEGORIES,
    )
