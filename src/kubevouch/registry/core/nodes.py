"""Node, with ``/status`` (pkg/registry/core/node; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import Node
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, NONE, UNKNOWN, age


def _without_config_source(node: Node) -> Node:
    """Dynamic kubelet configuration is gone since 1.24; what clients still send is dropped."""
    if node.spec.config_source is None and node.status.config is None:
        return node
    return msgspec.structs.replace(
        node,
        spec=msgspec.structs.replace(node.spec, config_source=None),
        status=msgspec.structs.replace(node.status, config=None),
    )


_EXTERNAL_ID = "spec.externalID: this field is deprecated, and is unused by Kubernetes"


class NodeStrategy(Strategy[Node]):
    reset_fields: Sequence[tuple[str, ...]] = (("status",),)

    def prepare_for_create(self, _ctx: Context, obj: Node) -> Node:
        return _without_config_source(obj)

    def validate(self, _ctx: Context, obj: Node) -> list[FieldError]:
        return core_v1.validate_node(obj)

    def prepare_for_update(self, _ctx: Context, new: Node, old: Node) -> Node:
        return msgspec.structs.replace(_without_config_source(new), status=old.status)

    def validate_update(self, _ctx: Context, new: Node, old: Node) -> list[FieldError]:
        return [*core_v1.validate_node(new), *core_v1.validate_node_update(new, old)]

    def warnings_on_create(self, _ctx: Context, obj: Node) -> list[str]:
        return [_EXTERNAL_ID] if obj.spec.external_id else []

    def warnings_on_update(self, ctx: Context, new: Node, _old: Node) -> list[str]:
        return self.warnings_on_create(ctx, new)


class NodeStatusStrategy(NodeStrategy):
    reset_fields: Sequence[tuple[str, ...]] = (("spec",),)

    def prepare_for_update(self, _ctx: Context, new: Node, old: Node) -> Node:
        return msgspec.structs.replace(_without_config_source(new), spec=old.spec)

    def validate_update(self, _ctx: Context, new: Node, old: Node) -> list[FieldError]:
        return core_v1.validate_node_update(new, old)

    def warnings_on_update(self, _ctx: Context, _new: Node, _old: Node) -> list[str]:
        return []


def _status(node: Node) -> str:
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.status == "True" else "NotReady"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Node) -> str:
    prefix = wellknown.NODE_ROLE_LABEL_PREFIX
    roles = {label.removeprefix(prefix) for label in node.metadata.labels if label.startswith(prefix)} - {""}
    if named := node.metadata.labels.get("kubernetes.io/role"):
        roles.add(named)
    return ",".join(sorted(roles)) or NONE


def _address(node: Node, kind: str) -> str:
    return next((address.address for address in node.status.addresses if address.type == kind), NONE)


def _cells(node: Node, now: dt.datetime) -> list[object]:
    system = node.status.node_info
    return [
        node.metadata.name,
        _status(node),
        _roles(node),
        age(node.metadata.creation_timestamp, now),
        system.kubelet_version,
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        system.os_image or UNKNOWN,
        system.kernel_version or UNKNOWN,
        system.container_runtime_version or UNKNOWN,
    ]


DEFINITION = Definition(
    resource=catalog.NODES,
    defaulter=core_v1.default_node,
    strategy=NodeStrategy(),
    printer=Printer(
        (
            NAME,
            Column("Status", description="Whether the node is ready and takes new work."),
            Column("Roles", description="The roles that its labels name."),
            AGE,
            Column("Version", description="The version of its kubelet."),
            Column("Internal-IP", description="Its first internal address.", priority=1),
            Column("External-IP", description="Its first external address.", priority=1),
            Column("OS-Image", description="Its operating system.", priority=1),
            Column("Kernel-Version", description="Its kernel.", priority=1),
            Column("Container-Runtime", description="Its container runtime.", priority=1),
        ),
        _cells,
    ),
    subresources=(Subresource("status", NodeStatusStrategy()),),
    selectable_fields={"spec.unschedulable": lambda obj: "true" if obj.spec.unschedulable else "false"},
)
