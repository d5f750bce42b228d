"""ServiceAccount (pkg/registry/core/serviceaccount; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import ServiceAccount
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age

_ENFORCE_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
_DEPRECATED = (
    f"metadata.annotations[{_ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; "
    "prefer separate namespaces to isolate access to mounted secrets"
)


class ServiceAccountStrategy(Strategy[ServiceAccount]):
    def validate(self, _ctx: Context, obj: ServiceAccount) -> list[FieldError]:
        return core_v1.validate_service_account(obj)

    def validate_update(self, _ctx: Context, new: ServiceAccount, old: ServiceAccount) -> list[FieldError]:
        return core_v1.validate_service_account_update(new, old)

    def warnings_on_create(self, _ctx: Context, obj: ServiceAccount) -> list[str]:
        return [_DEPRECATED] if _ENFORCE_MOUNTABLE_SECRETS in obj.metadata.annotations else []

    def warnings_on_update(self, ctx: Context, new: ServiceAccount, old: ServiceAccount) -> list[str]:
        return [] if _ENFORCE_MOUNTABLE_SECRETS in old.metadata.annotations else self.warnings_on_create(ctx, new)


def _cells(obj: ServiceAccount, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.SERVICE_ACCOUNTS,
    strategy=ServiceAccountStrategy(),
    printer=Printer((NAME, AGE), _cells),
)
