"""ServiceAccount."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import ServiceAccount
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class ServiceAccountStrategy(Strategy[ServiceAccount]):
    def validate(self, _ctx: Context, obj: ServiceAccount) -> list[FieldError]:
        return core_v1.validate_service_account(obj)

    def validate_update(self, _ctx: Context, new: ServiceAccount, old: ServiceAccount) -> list[FieldError]:
        return core_v1.validate_service_account_update(new, old)


def _cells(obj: ServiceAccount, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.SERVICE_ACCOUNTS,
    strategy=ServiceAccountStrategy(),
    printer=Printer((NAME, AGE), _cells),
)
