"""ValidatingAdmissionPolicy (pkg/registry/admissionregistration/validatingadmissionpolicy; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policies, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus
from kubevouch.authorization.param_access import ANY, ParamAccess
from kubevouch.machinery import errors, field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.admissionregistration import CATEGORIES
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class PolicyStrategy(Strategy[ValidatingAdmissionPolicy]):
    """Counts the changes of the spec; status belongs to its subresource; parameters are for those who may read them."""

    unconditional_update = False
    validates_elsewhere = True
    reset_fields = (("status",),)

    def __init__(self, access: ParamAccess) -> None:
        self._access = access

    async def check_create(self, ctx: Context, obj: ValidatingAdmissionPolicy) -> None:
        kind = obj.spec.param_kind
        if kind is None:
            return
        group, _, version = kind.api_version.rpartition("/")
        known = next(
            (each for each in catalog.STORED if (each.group, each.version, each.kind) == (group, version, kind.kind)),
            None,
        )
        plural = ANY if known is None else known.plural
        if not await self._access.may_read_kind(ctx.user, group, version or ANY, plural):
            why = (
                f'user {ctx.user.name} must have "get" permission on all objects of the referenced paramKind '
                f"(kind={kind.kind}, apiVersion={kind.api_version})"
            )
            fault = field.forbidden("spec.paramKind", why)
            raise errors.invalid(catalog.VALIDATING_ADMISSION_POLICIES.gvk, obj.metadata.name, [fault])

    async def check_update(self, ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def prepare_for_create(self, _ctx: Context, obj: ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicy:
        bare = msgspec.structs.replace(obj, status=ValidatingAdmissionPolicyStatus())
        counted: ValidatingAdmissionPolicy = replace_metadata(bare, generation=1)
        return counted

    def validate(self, _ctx: Context, obj: ValidatingAdmissionPolicy) -> list[FieldError]:
        return policy_rules.validate_policy(obj)

    def prepare_for_update(
        self, _ctx: Context, new: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy
    ) -> ValidatingAdmissionPolicy:
        kept = msgspec.structs.replace(new, status=old.status)
        generation = old.metadata.generation + (new.spec != old.spec)
        counted: ValidatingAdmissionPolicy = replace_metadata(kept, generation=generation)
        return counted

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
    kind = obj.spec.param_kind
    return [
        obj.metadata.name,
        len(obj.spec.validations),
        UNSET if kind is None else f"{kind.api_version}/{kind.kind}",
        age(obj.metadata.creation_timestamp, now),
    ]


def definition(access: ParamAccess) -> Definition[ValidatingAdmissionPolicy]:
    """The resource; ``access`` is asked who may refer to parameters."""
    return Definition(
        resource=catalog.VALIDATING_ADMISSION_POLICIES,
        defaulter=policies.default_policy,
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
