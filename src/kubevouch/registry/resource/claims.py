"""DeviceClass, ResourceClaim and ResourceClaimTemplate (pkg/registry/resource; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.api import catalog, resource_v1
from kubevouch.api.meta_v1 import validate_conditions
from kubevouch.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.registry.generations import CountingStrategy
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, age


class ClaimStrategy(Strategy[ResourceClaim]):
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: ResourceClaim) -> ResourceClaim:
        return msgspec.structs.replace(obj, status=ResourceClaimStatus())

    def validate(self, _ctx: Context, obj: ResourceClaim) -> list[FieldError]:
        return resource_v1.validate_claim(obj.spec, "spec")

    def prepare_for_update(self, _ctx: Context, new: ResourceClaim, old: ResourceClaim) -> ResourceClaim:
        return msgspec.structs.replace(new, status=old.status)

    def validate_update(self, _ctx: Context, new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
        return [] if new.spec == old.spec else [field.invalid("spec", "", "field is immutable")]


class ClaimStatusStrategy(ClaimStrategy):
    reset_fields: Sequence[tuple[str, ...]] = (("spec",),)

    def prepare_for_update(self, _ctx: Context, new: ResourceClaim, old: ResourceClaim) -> ResourceClaim:
        return msgspec.structs.replace(new, spec=old.spec)

    def validate_update(self, ctx: Context, new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
        found = super().validate_update(ctx, new, old)
        for index, device in enumerate(new.status.devices):
            found += validate_conditions(device.conditions, f"status.devices[{index}].conditions")
        return found


class TemplateStrategy(Strategy[ResourceClaimTemplate]):
    def validate(self, _ctx: Context, obj: ResourceClaimTemplate) -> list[FieldError]:
        return resource_v1.validate_claim(obj.spec.spec, "spec.spec")

    def validate_update(
        self, _ctx: Context, new: ResourceClaimTemplate, old: ResourceClaimTemplate
    ) -> list[FieldError]:
        return [] if new.spec == old.spec else [field.invalid("spec", "", "field is immutable")]


def _state(claim: ResourceClaim) -> str:
    gone = claim.metadata.deletion_timestamp is not None
    words = ["deleted"] if gone else []
    if claim.status.allocation is not None:
        words.append("allocated")
        words += ["reserved"] if claim.status.reserved_for else []
    elif not gone:
        words.append("pending")
    return ",".join(words)


def _claim_cells(claim: ResourceClaim, now: dt.datetime) -> list[object]:
    return [claim.metadata.name, _state(claim), age(claim.metadata.creation_timestamp, now)]


def _cells(obj: DeviceClass | ResourceClaimTemplate, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]


DEVICE_CLASSES = Definition(
    resource=catalog.DEVICE_CLASSES, strategy=CountingStrategy[DeviceClass](), printer=Printer((NAME, AGE), _cells)
)
RESOURCE_CLAIMS = Definition(
    resource=catalog.RESOURCE_CLAIMS,
    defaulter=resource_v1.default_claim,
    strategy=ClaimStrategy(),
    printer=Printer((NAME, Column("State", description="Whether it is allocated, and reserved."), AGE), _claim_cells),
    subresources=(Subresource("status", ClaimStatusStrategy()),),
)
RESOURCE_CLAIM_TEMPLATES = Definition(
    resource=catalog.RESOURCE_CLAIM_TEMPLATES,
    defaulter=resource_v1.default_template,
    strategy=TemplateStrategy(),
    printer=Printer((NAME, AGE), _cells),
)
