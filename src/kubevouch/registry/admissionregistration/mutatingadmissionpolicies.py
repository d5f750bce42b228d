"""MutatingAdmissionPolicy (pkg/registry/admissionregistration/mutatingadmissionpolicy; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import mutating_policy_rules, policy_defaults
from kubevouch.api.admissionregistration_v1.mutating_policies import MutatingAdmissionPolicy
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery.field import FieldError
from kubevouch.registry.admissionregistration import CATEGORIES, params
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer
from kubevouch.registry.printing import AGE, NAME, age


class PolicyStrategy(CountingStrategy[MutatingAdmissionPolicy]):
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

    def validate(self, _ctx: Context, obj: MutatingAdmissionPolicy) -> list[FieldError]:
        return mutating_policy_rules.validate_policy(obj)

    def validate_update(
        self, _ctx: Context, new: MutatingAdmissionPolicy, old: MutatingAdmissionPolicy
    ) -> list[FieldError]:
        return mutating_policy_rules.validate_policy(new, old)


def _cells(obj: MutatingAdmissionPolicy, now: dt.datetime) -> list[object]:
    spec = obj.spec
    kind = params.kind_text(spec.param_kind)
    return [obj.metadata.name, len(spec.mutations), kind, age(obj.metadata.creation_timestamp, now)]


def definition(access: ParamAccess) -> Definition[MutatingAdmissionPolicy]:
    """The policies; ``access`` is asked who may refer to parameters."""
    return Definition(
        resource=catalog.MUTATING_ADMISSION_POLICIES,
        defaulter=policy_defaults.default_policy,
        strategy=PolicyStrategy(access),
        printer=Printer(
            (
                NAME,
                Column("Mutations", "integer", description="How many mutations it has."),
                Column("ParamKind", description="The kind of its parameters."),
                AGE,
            ),
            _cells,
        ),
        categories=CATEGORIES,
    )
