"""ResourceQuota and LimitRange: the types, their defaults, and what is wrong with them.

Of a quota the numbers of objects are enforced; what containers and volumes use is nothing here. A limit range would be
applied to pods and volume claims, of which there are none.

Field numbers and order: k8s.io/api/core/v1; rules: pkg/apis/core/validation, pkg/apis/core/v1/defaults.go
(Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.declaration import Quantity, Struct, always, null, whole, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text import names, quantity

COUNT_PREFIX = "count/"
# Names of resources that stand for the number of objects of that kind.
_COUNTED = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip


@whole
class ScopedResourceSelectorRequirement(Struct):
    """Which pods a quota is for, by a property of theirs."""

    scope_name: Annotated[str, wire(1, "The property.", required=True)] = always(str)
    operator: Annotated[str, wire(2, "In, NotIn, Exists or DoesNotExist.", required=True)] = always(str)
    values: Annotated[list[str], wire(3, "Its values.", list_type="atomic")] = []


@whole
class ScopeSelector(Struct):
    """Which pods a quota is for."""

    match_expressions: Annotated[
        list[ScopedResourceSelectorRequirement], wire(1, "All of them hold.", list_type="atomic")
    ] = []


class ResourceQuotaSpec(Struct):
    """The limits."""

    hard: Annotated[dict[str, Quantity], wire(1, "The most of each resource.")] = {}
    scopes: Annotated[list[str], wire(2, "Properties of the pods that it is for.", list_type="atomic")] = []
    scope_selector: Annotated[ScopeSelector | None, wire(3, "The same, by expressions.")] = None


class ResourceQuotaStatus(Struct):
    """What is enforced, and used of it."""

    hard: Annotated[dict[str, Quantity], wire(1, "The limits that are enforced.")] = {}
    used: Annotated[dict[str, Quantity], wire(2, "How much is used.")] = {}


class ResourceQuota(Object):
    """How much of each resource a namespace may use."""

    spec: Annotated[ResourceQuotaSpec, wire(2, "The limits.")] = always(ResourceQuotaSpec)
    status: Annotated[ResourceQuotaStatus, wire(3, "What is enforced, and used of it.")] = always(ResourceQuotaStatus)


class LimitRangeItem(Struct):
    """Bounds of one kind of object."""

    type: Annotated[str, wire(1, "Container, Pod or PersistentVolumeClaim.", required=True)] = always(str)
    max: Annotated[dict[str, Quantity], wire(2, "The most.")] = {}
    min: Annotated[dict[str, Quantity], wire(3, "The least.")] = {}
    default: Annotated[dict[str, Quantity], wire(4, "Limits where none are given.")] = {}
    default_request: Annotated[dict[str, Quantity], wire(5, "Requests where none are given.")] = {}
    max_limit_request_ratio: Annotated[dict[str, Quantity], wire(6, "The most that a limit may be of a request.")] = {}


class LimitRangeSpec(Struct):
    """The bounds."""

    limits: Annotated[list[LimitRangeItem] | None, wire(1, "The bounds.", required=True, list_type="atomic")] = null()


class LimitRange(Object):
    """Bounds and defaults for what the pods of a namespace use."""

    spec: Annotated[LimitRangeSpec, wire(2, "The bounds.")] = always(LimitRangeSpec)


# ------------------------------------------------------------------ rules


def counted(resource_name: str) -> GroupResource | None:
    """Whose number a name in ``hard`` limits: ``count/leases.coordination.k8s.io``, ``secrets``; None for amounts."""
    if resource_name.startswith(COUNT_PREFIX):
        plural, _, group = resource_name.removeprefix(COUNT_PREFIX).partition(".")
        return GroupResource(group, plural)
    return GroupResource("", resource_name) if resource_name in _COUNTED else None


def validate_quota(quota: ResourceQuota) -> list[FieldError]:
    """What is wrong with it, metadata apart."""
    return [
        *_amounts("spec.hard", quota.spec.hard),
        *_amounts("status.hard", quota.status.hard),
        *_amounts("status.used", quota.status.used),
    ]


def _amounts(path: str, amounts: dict[str, Quantity]) -> list[FieldError]:
    found = []
    for name, amount in amounts.items():
        at = f"{path}[{name}]"
        found += [field.invalid(at, name, fault) for fault in names.qualified_name(name)]
        value = quantity.floor(amount.text)
        if value < 0:
            found.append(field.invalid(at, amount.text, "must be greater than or equal to 0"))
        elif counted(name) is not None and not quantity.is_whole(amount.text):
            found.append(field.invalid(at, amount.text, "must be an integer"))
    return found


def validate_limit_range(limits: LimitRange) -> list[FieldError]:
    """What is wrong with it, metadata apart."""
    found, seen = [], set[str]()
    for index, item in enumerate(limits.spec.limits or ()):
        at = f"spec.limits[{index}]"
        if item.type in seen:
            found.append(field.duplicate(f"{at}.type", item.type))
        seen.add(item.type)
        for name, least in item.min.items():
            most = item.max.get(name)
            if most is not None and quantity.floor(least.text) > quantity.floor(most.text):
                why = f"min value {least.text} is greater than max value {most.text}"
                found.append(field.invalid(f"{at}.min[{name}]", least.text, why))
    return found


def default_limit_range(limits: LimitRange) -> LimitRange:
    """Bounds of containers give the limits and requests that are not said."""
    items = [_defaulted(item) if item.type == "Container" else item for item in limits.spec.limits or ()]
    if items == (limits.spec.limits or []):
        return limits
    return msgspec.structs.replace(limits, spec=msgspec.structs.replace(limits.spec, limits=items))


def _defaulted(item: LimitRangeItem) -> LimitRangeItem:
    default = {**item.max, **item.default}
    return msgspec.structs.replace(
        item, default=default, default_request={**item.min, **default, **item.default_request}
    )
