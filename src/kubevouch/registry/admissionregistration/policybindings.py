"""ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding (pkg/registry/admissionregistration; 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeVar

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import mutating_policy_rules, policy_defaults, policy_rules
from kubevouch.api.admissionregistration_v1.mutating_policies import MutatingAdmissionPolicyBinding
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicyBinding
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.scheme import Resource
from kubevouch.registry.admissionregistration import CATEGORIES, params
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer
from kubevouch.registry.printing import AGE, NAME, age

B = TypeVar("B", ValidatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding)


class BindingStrategy(CountingStrategy[B]):
    """Counts the changes of the spec; parameters are for those who may read them."""

    unconditional_update = False

    def __init__(
        self, resource: Resource[B], access: ParamAccess, problems_of: Callable[[B], list[FieldError]]
    ) -> None:
        self._resource: Resource[B] = resource
        self._access = access
        self._problems_of: Callable[[B], list[FieldError]] = problems_of

    async def check_create(self, ctx: Context, obj: B) -> None:
        ref, name = obj.spec.param_ref, obj.metadata.name
        await params.check_ref(self._access, ctx.user, ref, self._resource.gvk, name)

    async def check_update(self, ctx: Context, new: B, old: B) -> None:
        if new.spec != old.spec:
            await self.check_create(ctx, new)

    def validate(self, _ctx: Context, obj: B) -> list[FieldError]:
        return self._problems_of(obj)

    def validate_update(self, _ctx: Context, new: B, _old: B) -> list[FieldError]:
        return self._problems_of(new)


def _cells(obj: ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding, now: dt.datetime) -> list[object]:
    spec = obj.spec
    ref = params.ref_text(spec.param_ref)
    return [obj.metadata.name, spec.policy_name, ref, age(obj.metadata.creation_timestamp, now)]


_PRINTER = Printer(
    (
        NAME,
        Column("PolicyName", description="The policy that it puts in force."),
        Column("ParamRef", description="The parameters that it uses."),
        AGE,
    ),
    _cells,
)


def validating(access: ParamAccess) -> Definition[ValidatingAdmissionPolicyBinding]:
    """Of policies that validate; ``access`` is asked who may refer to parameters."""
    resource = catalog.VALIDATING_ADMISSION_POLICY_BINDINGS
    return Definition(
        resource=resource,
        defaulter=policy_defaults.default_binding,
        strategy=BindingStrategy(resource, access, policy_rules.validate_binding),
        printer=_PRINTER,
        categories=CATEGORIES,
    )


def mutating(access: ParamAccess) -> Definition[MutatingAdmissionPolicyBinding]:
    """Of policies that change objects; ``access`` as with :func:`validating`."""
    resource = catalog.MUTATING_ADMISSION_POLICY_BINDINGS
    return Definition(
        resource=resource,
        defaulter=policy_defaults.default_binding,
        strategy=BindingStrategy(resource, access, mutating_policy_rules.validate_binding),
        printer=_PRINTER,
        categories=CATEGORIES,
    )
