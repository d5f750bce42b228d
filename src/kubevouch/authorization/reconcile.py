"""What has to be written so that the stored policy contains the policy that ships with the server.

Nothing that people added is taken away, and objects whose autoupdate annotation is "false" are left alone.
Source: k8s.io/component-helpers/auth/rbac/reconciliation, pkg/registry/rbac/rest/storage_rbac.go (Kubernetes 1.36).
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

import msgspec

from kubevouch.api.rbac_v1 import AggregationRule, ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubevouch.authorization.rbac_cover import uncovered
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.wellknown import AUTOUPDATE_ANNOTATION

R = TypeVar("R", bound=Role | ClusterRole)
B = TypeVar("B", bound=RoleBinding | ClusterRoleBinding)
T = TypeVar("T", bound=Object)


class Operation(Enum):
    """What to do with one object."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    # The role of a binding cannot be changed, so the binding is deleted and made again.
    RECREATE = "recreate"


class Reconciled(msgspec.Struct, Generic[T], frozen=True):
    """What to do, and the object to write; for an update it carries the stored metadata and resourceVersion."""

    operation: Operation
    obj: T


def reconcile_role(stored: R | None, shipped: R) -> Reconciled[R]:
    """Adds the rules that ``stored`` does not cover, in their smallest parts."""
    if stored is None:
        return Reconciled(Operation.CREATE, shipped)
    if _is_protected(stored):
        return Reconciled(Operation.NONE, stored)
    result = _with_shipped_metadata(stored, shipped)
    missing = uncovered(stored.rules or [], shipped.rules or [])
    if missing:
        result = msgspec.structs.replace(result, rules=[*(stored.rules or []), *missing])
    if isinstance(result, ClusterRole) and isinstance(shipped, ClusterRole):
        result = msgspec.structs.replace(result, aggregation_rule=_aggregation(result, shipped))
    return Reconciled(Operation.NONE if result == stored else Operation.UPDATE, result)


def _aggregation(stored: ClusterRole, shipped: ClusterRole) -> AggregationRule | None:
    """The selectors of both; a role that is not meant to aggregate stops doing so."""
    if shipped.aggregation_rule is None:
        return None
    known = stored.aggregation_rule.cluster_role_selectors if stored.aggregation_rule else []
    missing = [each for each in shipped.aggregation_rule.cluster_role_selectors if each not in known]
    return AggregationRule(cluster_role_selectors=[*known, *missing])


def reconcile_binding(stored: B | None, shipped: B) -> Reconciled[B]:
    """Adds the subjects that ``stored`` does not have; a binding of another role is made anew."""
    if stored is None:
        return Reconciled(Operation.CREATE, shipped)
    if _is_protected(stored):
        return Reconciled(Operation.NONE, stored)
    if stored.role_ref != shipped.role_ref:
        return Reconciled(Operation.RECREATE, shipped)
    result = _with_shipped_metadata(stored, shipped)
    missing = [subject for subject in shipped.subjects if subject not in stored.subjects]
    if missing:
        result = msgspec.structs.replace(result, subjects=[*stored.subjects, *missing])
    return Reconciled(Operation.NONE if result == stored else Operation.UPDATE, result)


def _is_protected(stored: Object) -> bool:
    return stored.metadata.annotations.get(AUTOUPDATE_ANNOTATION) == "false"


def _with_shipped_metadata(stored: T, shipped: Object) -> T:
    """``stored`` with the shipped labels and annotations that it lacks; values that people changed stay."""
    old, new = stored.metadata, shipped.metadata
    labels, annotations = new.labels | old.labels, new.annotations | old.annotations
    merged: T = replace_metadata(stored, labels=labels, annotations=annotations)
    return merged
