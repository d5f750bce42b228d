"""Node: defaults and validation.

Source: pkg/apis/core/validation, pkg/apis/core/v1 defaults and conversion (Kubernetes 1.36). The checks of
``spec.configSource`` and ``status.config`` are left out: those fields are dropped before validation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from kubevouch.api.core_v1.nodes import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, NodeSpec, Taint
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Quantity
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.machinery.text.quantity import rounded_up_to_milli
from kubevouch.machinery.text.times import Time

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


class _Address(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    Type: str
    Address: str


class _Taint(msgspec.Struct):
    """Kubernetes' internal type, whose Go field names stand in messages."""

    Key: str
    Value: str
    Effect: str
    TimeAdded: Time | None


def default_node(node: Node) -> Node:
    """``allocatable`` is ``capacity`` if not given; ``podCIDR`` and the first of ``podCIDRs`` stand for each other.

    Resources are counted in thousandths.
    """
    status = node.status
    if status.capacity:
        capacity = _in_thousandths(status.capacity)
        allocatable = _in_thousandths(status.allocatable) if status.allocatable else capacity
        if capacity is not status.capacity or allocatable is not status.allocatable:
            status = msgspec.structs.replace(status, capacity=capacity, allocatable=allocatable)
            node = msgspec.structs.replace(node, status=status)
    spec = _with_pod_cidrs(node.spec)
    return node if spec is node.spec else msgspec.structs.replace(node, spec=spec)


def _in_thousandths(resources: dict[str, Quantity]) -> dict[str, Quantity]:
    rounded = {name: Quantity(rounded_up_to_milli(amount.text)) for name, amount in resources.items()}
    return resources if rounded == resources else rounded


def _with_pod_cidrs(spec: NodeSpec) -> NodeSpec:
    if spec.pod_cidr and not spec.pod_cidrs:
        return msgspec.structs.replace(spec, pod_cidrs=[spec.pod_cidr])
    if spec.pod_cidrs and not spec.pod_cidr:
        return msgspec.structs.replace(spec, pod_cidr=spec.pod_cidrs[0])
    return spec


def validate_node(node: Node) -> list[FieldError]:
    """What is wrong with a Node, metadata apart."""
    return _taint_errors(node.spec.taints) + _resource_errors(node) + _pod_cidr_errors(node.spec.pod_cidrs)


def validate_node_update(new: Node, old: Node) -> list[FieldError]:
    """What is wrong with a change of a Node or of its status, metadata apart."""
    errors = _resource_errors(new)
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(new.status.addresses):
        pair = (address.type, address.address)
        if pair in seen:
            errors.append(field.duplicate(f"status.addresses[{index}]", _Address(*pair)))
        seen.add(pair)
    errors += _frozen_cidr_errors(new.spec.pod_cidrs, old.spec.pod_cidrs)
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        errors.append(
            field.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
        )
    errors += _taint_errors(new.spec.taints)
    if new.spec.external_id != old.spec.external_id:
        errors.append(field.forbidden("spec.externalID", "may not be updated"))
    return errors


def _frozen_cidr_errors(new: list[str], old: list[str]) -> list[FieldError]:
    if not old or new == old:
        return []
    changed = 1 if len(new) != len(old) else sum(a != b for a, b in zip(new, old, strict=True))
    return [field.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')] * changed


def _taint_errors(taints: list[Taint]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # Sic: the taints are in spec, but Kubernetes' messages say metadata.
        path = f"metadata.taints[{index}]"
        errors += (field.invalid(f"{path}.key", taint.key, message) for message in names.qualified_name(taint.key))
        value_errors = names.label_value(taint.value)
        if value_errors:
            errors.append(field.invalid(f"{path}.value", taint.value, ";".join(value_errors)))
        if not taint.effect:
            errors.append(field.required(f"{path}.effect"))
        elif taint.effect not in _EFFECTS:
            errors.append(field.not_supported(f"{path}.effect", field.TypedString(taint.effect), _EFFECTS))
        pair = (taint.key, taint.effect)
        if pair in seen:
            shown = _Taint(taint.key, taint.value, taint.effect, taint.time_added)
            errors.append(
                FieldError(field.ErrorType.DUPLICATE, path, shown, "taints must be unique by key and effect pair")
            )
        seen.add(pair)
    return errors


# ------------------------------------------------------------------ resources and addresses

_OBJECT_COUNTS = frozenset(
    (
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
_SUFFIX_LETTERS = "numkKMGTPEi"
_FACTORS = {suffix: Decimal(1).scaleb(-3 * power) for power, suffix in enumerate("mun", 1)}
_FACTORS |= {suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)}
_FACTORS |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}


def _resource_errors(node: Node) -> list[FieldError]:
    errors: list[FieldError] = []
    for where, quantities in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        for name, quantity in quantities.items():
            errors += _quantity_errors(name, quantity, f"status.{where}.{name}")
    return errors


def _quantity_errors(name: str, quantity: Quantity, path: str) -> Iterable[FieldError]:
    number = quantity.text.rstrip(_SUFFIX_LETTERS)
    try:
        amount = Decimal(number) * _FACTORS.get(quantity.text[len(number) :], 1)
        whole = amount % 1 == 0
    except ArithmeticError:
        # No number, which reading it refuses before, or one too big to have a fraction.
        return
    if amount < 0:
        yield field.invalid(path, quantity.text, "must be greater than or equal to 0")
    if not whole and _counts_wholes(name):
        yield field.invalid(path, quantity, "must be an integer")


def _counts_wholes(name: str) -> bool:
    """Object counts, and the resources of others: those are qualified and not under kubernetes.io."""
    if name in _OBJECT_COUNTS:
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _pod_cidr_errors(cidrs: list[str]) -> list[FieldError]:
    errors = [
        field.invalid(
            f"spec.podCIDRs[{index}]", cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )
        for index, cidr in enumerate(cidrs)
        if _family(cidr) is None
    ]
    if len(cidrs) < 2:
        return errors
    families = {_family(cidr) for cidr in cidrs}
    if families != {4, 6} or len(cidrs) > 2:
        errors.append(field.invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family"))
    seen: set[str] = set()
    for index, cidr in enumerate(cidrs):
        if cidr in seen:
            errors.append(field.duplicate(f"spec.podCIDRs[{index}]", cidr))
        seen.add(cidr)
    return errors


def _family(cidr: str) -> int | None:
    try:
        # Go's ParseCIDR wants the prefix length as a number, which ip_network does not insist on.
        return ipaddress.ip_network(cidr, strict=False).version if cidr.rpartition("/")[2].isdecimal() else None
    except ValueError:
        return None
