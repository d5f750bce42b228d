"""ResourceQuota and LimitRange (pkg/registry/core/resourcequota, …/limitrange; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import LimitRange, ResourceQuota
from kubevouch.api.core_v1.quotas import ResourceQuotaStatus
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, CREATED_AT, NAME, age, created_at


class QuotaStrategy(Strategy[ResourceQuota]):
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: ResourceQuota) -> ResourceQuota:
        return msgspec.structs.replace(obj, status=ResourceQuotaStatus())

    def validate(self, _ctx: Context, obj: ResourceQuota) -> list[FieldError]:
        return core_v1.validate_quota(obj)

    def prepare_for_update(self, _ctx: Context, new: ResourceQuota, old: ResourceQuota) -> ResourceQuota:
        return msgspec.structs.replace(new, status=old.status)

    def validate_update(self, _ctx: Context, new: ResourceQuota, _old: ResourceQuota) -> list[FieldError]:
        return core_v1.validate_quota(new)


class QuotaStatusStrategy(QuotaStrategy):
    reset_fields: Sequence[tuple[str, ...]] = (("spec",),)

    def prepare_for_update(self, _ctx: Context, new: ResourceQuota, old: ResourceQuota) -> ResourceQuota:
        return msgspec.structs.replace(new, spec=old.spec)


class LimitRangeStrategy(Strategy[LimitRange]):
    def validate(self, _ctx: Context, obj: LimitRange) -> list[FieldError]:
        return core_v1.validate_limit_range(obj)

    def validate_update(self, _ctx: Context, new: LimitRange, _old: LimitRange) -> list[FieldError]:
        return core_v1.validate_limit_range(new)


def _quota_cells(quota: ResourceQuota, now: dt.datetime) -> list[object]:
    requests: list[str] = []
    limits: list[str] = []
    for name, most in sorted(quota.status.hard.items()):
        used = quota.status.used.get(name)
        (limits if name.startswith("limits") else requests).append(
            f"{name}: {'0' if used is None else used.text}/{most.text}"
        )
    return [quota.metadata.name, ", ".join(requests), ", ".join(limits), age(quota.metadata.creation_timestamp, now)]


def _limit_cells(limits: LimitRange, _now: dt.datetime) -> list[object]:
    return [limits.metadata.name, created_at(limits.metadata.creation_timestamp)]


QUOTAS = Definition(
    resource=catalog.RESOURCE_QUOTAS,
    strategy=QuotaStrategy(),
    printer=Printer(
        (
            NAME,
            Column("Request", description="How much is used, and the most that may be."),
            Column("Limit", description="The same of limits."),
            AGE,
        ),
        _quota_cells,
    ),
    subresources=(Subresource("status", QuotaStatusStrategy()),),
)
LIMIT_RANGES = Definition(
    resource=catalog.LIMIT_RANGES,
    defaulter=core_v1.default_limit_range,
    strategy=LimitRangeStrategy(),
    printer=Printer((NAME, CREATED_AT), _limit_cells),
)
