"""ValidatingAdmissionPolicy (pkg/registry/admissionregistration/validatingadmissionpolicy; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

import msgspec

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policies, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.registry.admissionregistration import CATEGORIES
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class PolicyStrategy(Strategy[ValidatingAdmissionPolicy]):
    """Counts the changes of the spec; status belongs to its subresource."""

    unconditional_update = False
    reset_fields = (("status",),)

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


DEFINITION = Definition(
    resource=catalog.VALIDATING_ADMISSION_POLICIES,
    defaulter=policies.default_policy,
    strategy=PolicyStrategy(),
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
