"""storage.k8s.io/v1: the two kinds that a kubelet asks for.

Field numbers and order: k8s.io/api/storage/v1; rules: pkg/apis/storage/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, always_named, null, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import names

GROUP = "storage.k8s.io"


class VolumeNodeResources(Struct):
    """How many volumes a driver can have on a node."""

    count: Annotated[Int32 | None, wire(1, "The number; unlimited if not given.")] = None


class CSINodeDriver(Struct):
    """A volume driver on a node."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    node_id: Annotated[str, wire(2, "What it calls the node.", required=True)] = always_named("nodeID", str)
    topology_keys: Annotated[
        list[str] | None, wire(3, "Node labels that its placement goes by.", list_type="atomic")
    ] = null()
    allocatable: Annotated[VolumeNodeResources | None, wire(4, "How many volumes it can have.")] = None


class CSINodeSpec(Struct):
    """The volume drivers of a node."""

    drivers: Annotated[
        list[CSINodeDriver] | None,
        wire(
            1, "The drivers.", required=True, list_type="map", map_keys=("name",), patch_merge_key="name",
        ),
    ] = null()  # fmt: skip


class CSINode(Object):
    """The volume drivers of the node of the same name; its kubelet makes it."""

    spec: Annotated[CSINodeSpec, wire(2, "The drivers.", required=True)] = always(CSINodeSpec)


MAX_DRIVER_NAME = 63
MAX_NODE_ID = 192


def validate_csi_node(node: CSINode) -> list[FieldError]:
    """What is wrong with a CSINode, metadata apart."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate(node.spec.drivers or ()):
        path = f"spec.drivers[{index}]"
        errors += _driver_errors(path, driver)
        if driver.name in seen:
            errors.append(field.duplicate(f"{path}.name", driver.name))
        seen.add(driver.name)
        errors += _topology_errors(path, driver.topology_keys or [])
    return errors


def validate_csi_node_update(new: CSINode, old: CSINode) -> list[FieldError]:
    """What is wrong with a change: drivers come and go, but keep all but how many volumes they can have."""
    errors = validate_csi_node(new)
    drivers = new.spec.drivers or []
    for former in old.spec.drivers or ():
        for driver in drivers:
            if driver.name == former.name and _without_limit(driver) != _without_limit(former):
                errors.append(field.invalid("CSINodeDriver", driver, "field is immutable"))
    return errors


def _driver_errors(path: str, driver: CSINodeDriver) -> list[FieldError]:
    errors: list[FieldError] = []
    if not driver.name:
        errors.append(field.required(f"{path}.name"))
    if len(driver.name) > MAX_DRIVER_NAME:
        errors.append(field.too_long(f"{path}.name", MAX_DRIVER_NAME))
    faults = names.subdomain(driver.name.lower())
    errors += [field.invalid(f"{path}.name", driver.name, fault) for fault in faults]
    if not driver.node_id:
        errors.append(field.required(f"{path}.nodeID"))
    if len(driver.node_id) > MAX_NODE_ID:
        errors.append(field.invalid(f"{path}.nodeID", driver.node_id, f"must be {MAX_NODE_ID} characters or less"))
    count = None if driver.allocatable is None else driver.allocatable.count
    if count is not None and count < 0:
        errors.append(field.invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0"))
    return errors


def _topology_errors(path: str, keys: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.append(field.required(path))
        if key in seen:
            errors.append(field.duplicate(path, key))
        seen.add(key)
        errors += [field.invalid(path, keys, fault) for fault in names.qualified_name(key)]
    return errors


def _without_limit(driver: CSINodeDriver) -> CSINodeDriver:
    return msgspec.structs.replace(driver, topology_keys=driver.topology_keys or None, allocatable=None)


class TokenRequest(Struct):
    """A token of the pod's account that a driver wants."""

    audience: Annotated[str, wire(1, "Who is meant to accept it.", required=True)] = always(str)
    expiration_seconds: Annotated[Int64 | None, wire(2, "How long it should hold.")] = None


class CSIDriverSpec(Struct):
    """What a volume driver needs and can do."""

    attach_required: Annotated[bool | None, wire(1, "Volumes are attached before they are mounted.")] = None
    pod_info_on_mount: Annotated[bool | None, wire(2, "The driver is told of the pod.")] = None
    volume_lifecycle_modes: Annotated[list[str], wire(3, "Persistent, Ephemeral or both.", list_type="set")] = []
    storage_capacity: Annotated[bool | None, wire(4, "The driver publishes its capacity.")] = None
    fs_group_policy: Annotated[str | None, wire(5, "Whether ownership of files is changed.")] = None
    token_requests: Annotated[list[TokenRequest], wire(6, "Tokens the driver wants.", list_type="atomic")] = []
    requires_republish: Annotated[bool | None, wire(7, "The driver is called again from time to time.")] = None
    se_linux_mount: Annotated[bool | None, wire(8, "The driver can mount with a security context.")] = None
    node_allocatable_update_period_seconds: Annotated[
        Int64 | None, wire(9, "How often a node asks how many volumes fit.")
    ] = None
    service_account_token_in_secrets: Annotated[
        bool | None, wire(10, "Tokens come with the secrets of the driver.")
    ] = None


class CSIDriver(Object):
    """A volume driver."""

    spec: Annotated[CSIDriverSpec, wire(2, "What it needs and can do.", required=True)] = always(CSIDriverSpec)


def default_csi_driver(driver: CSIDriver) -> CSIDriver:
    """What a driver does not say has its usual value (pkg/apis/storage/v1/defaults.go)."""
    spec = driver.spec
    filled = msgspec.structs.replace(
        spec,
        attach_required=_or(spec.attach_required, True),
        pod_info_on_mount=_or(spec.pod_info_on_mount, False),
        volume_lifecycle_modes=spec.volume_lifecycle_modes or ["Persistent"],
        storage_capacity=_or(spec.storage_capacity, False),
        fs_group_policy="ReadWriteOnceWithFSType" if spec.fs_group_policy is None else spec.fs_group_policy,
        requires_republish=_or(spec.requires_republish, False),
        se_linux_mount=_or(spec.se_linux_mount, False),
    )
    return driver if filled == spec else msgspec.structs.replace(driver, spec=filled)


def _or(value: bool | None, default: bool) -> bool:
    return default if value is None else value
