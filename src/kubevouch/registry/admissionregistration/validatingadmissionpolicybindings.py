"""ValidatingAdmissionPolicyBinding (pkg/registry/admissionregistration; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import policies, policy_rules
from kubevouch.api.admissionregistration_v1.policies import ParamRef, ValidatingAdmissionPolicyBinding
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.selectors import label_selector_of
from kubevouch.registry.admissionregistration import CATEGORIES
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, UNSET, age


class BindingStrategy(Strategy[ValidatingAdmissionPolicyBinding]):
    """Counts the changes of the spec."""

    unconditional_update = False

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


DEFINITION = Definition(
    resource=catalog.VALIDATING_ADMISSION_POLICY_BINDINGS,
    defaulter=policies.default_binding,
    strategy=BindingStrategy(),
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
