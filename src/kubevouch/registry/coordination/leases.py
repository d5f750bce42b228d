"""Lease."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, coordination_v1
from kubevouch.api.coordination_v1 import Lease
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class LeaseStrategy(Strategy[Lease]):
    create_on_update = True
    unconditional_update = False

    def prepare_for_create(self, _ctx: Context, obj: Lease) -> Lease:
        return coordination_v1.drop_disabled_fields(obj)

    def validate(self, _ctx: Context, obj: Lease) -> list[FieldError]:
        return coordination_v1.validate_lease(obj)

    def prepare_for_update(self, _ctx: Context, new: Lease, old: Lease) -> Lease:
        return coordination_v1.drop_disabled_fields(new, old)

    def validate_update(self, _ctx: Context, new: Lease, old: Lease) -> list[FieldError]:
        return coordination_v1.validate_lease_update(new, old)


def _cells(obj: Lease, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.spec.holder_identity or "", age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.LEASES,
    strategy=LeaseStrategy(),
    printer=Printer((NAME, Column("Holder", description="Who holds it."), AGE), _cells),
)
