"""RoleBinding and ClusterRoleBinding. Nobody may bind a role whose rules he does not hold."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

from kubevouch.api import catalog, rbac_v1
from kubevouch.api.rbac_v1 import (
    GROUP_KIND,
    SERVICE_ACCOUNT_KIND,
    USER_KIND,
    ClusterRoleBinding,
    RoleBinding,
    Subject,
)
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.names import path_segment_name
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age

B = TypeVar("B", RoleBinding, ClusterRoleBinding)


class _GuardedStrategy(Strategy[B]):
    create_on_update = True

    def __init__(self, guard: EscalationGuard) -> None:
        self._guard = guard

    async def check_create(self, ctx: Context, obj: B) -> None:
        await self._guard.check_binding(ctx.user, obj)

    async def check_update(self, ctx: Context, new: B, old: B) -> None:
        await self._guard.check_binding(ctx.user, new, old)


class RoleBindingStrategy(_GuardedStrategy[RoleBinding]):
    def validate(self, _ctx: Context, obj: RoleBinding) -> list[FieldError]:
        return rbac_v1.validate_role_binding(obj)

    def validate_update(self, _ctx: Context, new: RoleBinding, old: RoleBinding) -> list[FieldError]:
        return rbac_v1.validate_role_binding_update(new, old)


class ClusterRoleBindingStrategy(_GuardedStrategy[ClusterRoleBinding]):
    def validate(self, _ctx: Context, obj: ClusterRoleBinding) -> list[FieldError]:
        return rbac_v1.validate_cluster_role_binding(obj)

    def validate_update(self, _ctx: Context, new: ClusterRoleBinding, old: ClusterRoleBinding) -> list[FieldError]:
        return rbac_v1.validate_cluster_role_binding_update(new, old)


def _names(subjects: list[Subject], kind: str) -> str:
    chosen = [subject for subject in subjects if subject.kind == kind]
    if kind == SERVICE_ACCOUNT_KIND:
        return ", ".join(f"{subject.namespace}/{subject.name}" for subject in chosen)
    return ", ".join(subject.name for subject in chosen)


def _cells(obj: RoleBinding | ClusterRoleBinding, now: dt.datetime) -> list[object]:
    return [
        obj.metadata.name,
        f"{obj.role_ref.kind}/{obj.role_ref.name}",
        age(obj.metadata.creation_timestamp, now),
        _names(obj.subjects, USER_KIND),
        _names(obj.subjects, GROUP_KIND),
        _names(obj.subjects, SERVICE_ACCOUNT_KIND),
    ]


_PRINTER = Printer(
    (
        NAME,
        Column("Role", description="The role that is granted."),
        AGE,
        Column("Users", description="Users that get the role.", priority=1),
        Column("Groups", description="Groups that get the role.", priority=1),
        Column("ServiceAccounts", description="Service accounts that get the role.", priority=1),
    ),
    _cells,
)


def role_binding_definition(guard: EscalationGuard) -> Definition[RoleBinding]:
    return Definition(
        resource=catalog.ROLE_BINDINGS,
        strategy=RoleBindingStrategy(guard),
        name_rule=path_segment_name,
        printer=_PRINTER,
        defaulter=rbac_v1.default_binding,
    )


def cluster_role_binding_definition(guard: EscalationGuard) -> Definition[ClusterRoleBinding]:
    return Definition(
        resource=catalog.CLUSTER_ROLE_BINDINGS,
        strategy=ClusterRoleBindingStrategy(guard),
        name_rule=path_segment_name,
        printer=_PRINTER,
        defaulter=rbac_v1.default_binding,
    )
