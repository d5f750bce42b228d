"""Role and ClusterRole. Nobody may grant what he does not hold: checked before the rules are validated."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

import msgspec

from kubevouch.api import catalog, rbac_v1
from kubevouch.api.rbac_v1 import ClusterRole, Role
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.names import path_segment_name
from kubevouch.registry.interface import Context, Definition, Printer, Strategy
from kubevouch.registry.printing import CREATED_AT, NAME, created_at

R = TypeVar("R", Role, ClusterRole)


class _GuardedStrategy(Strategy[R]):
    create_on_update = True

    def __init__(self, guard: EscalationGuard) -> None:
        self._guard = guard

    def prepare_for_create(self, _ctx: Context, obj: R) -> R:
        return _as_stored(obj)

    def prepare_for_update(self, _ctx: Context, new: R, _old: R) -> R:
        return _as_stored(new)

    async def check_create(self, ctx: Context, obj: R) -> None:
        await self._guard.check_role(ctx.user, obj)

    async def check_update(self, ctx: Context, new: R, old: R) -> None:
        await self._guard.check_role(ctx.user, new, old)


class RoleStrategy(_GuardedStrategy[Role]):
    def validate(self, _ctx: Context, obj: Role) -> list[FieldError]:
        return rbac_v1.validate_role(obj)

    def validate_update(self, _ctx: Context, new: Role, old: Role) -> list[FieldError]:
        return rbac_v1.validate_role_update(new, old)


class ClusterRoleStrategy(_GuardedStrategy[ClusterRole]):
    def validate(self, _ctx: Context, obj: ClusterRole) -> list[FieldError]:
        return rbac_v1.validate_cluster_role(obj)

    def validate_update(self, _ctx: Context, new: ClusterRole, old: ClusterRole) -> list[FieldError]:
        return rbac_v1.validate_cluster_role_update(new, old)


def _as_stored(role: R) -> R:
    """Kubernetes stores an empty list of rules as none, and answers with what it stored."""
    return role if role.rules else msgspec.structs.replace(role, rules=None)


def _cells(obj: Role | ClusterRole, _now: dt.datetime) -> list[object]:
    return [obj.metadata.name, created_at(obj.metadata.creation_timestamp)]


_PRINTER = Printer((NAME, CREATED_AT), _cells)


def role_definition(guard: EscalationGuard) -> Definition[Role]:
    return Definition(
        resource=catalog.ROLES, strategy=RoleStrategy(guard), name_rule=path_segment_name, printer=_PRINTER
    )


def cluster_role_definition(guard: EscalationGuard) -> Definition[ClusterRole]:
    return Definition(
        resource=catalog.CLUSTER_ROLES,
        strategy=ClusterRoleStrategy(guard),
        name_rule=path_segment_name,
        printer=_PRINTER,
    )
