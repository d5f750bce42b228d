"""Node: the types.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36). Rules are in ``node_rules.py``.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from kubevouch.machinery.declaration import (
    Int32,
    Int64,
    Quantity,
    Struct,
    always,
    always_named,
    named,
    null,
    whole,
    wire,
)
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

INTERNAL_IP = "InternalIP"
EXTERNAL_IP = "ExternalIP"
HOSTNAME = "Hostname"
INTERNAL_DNS = "InternalDNS"
EXTERNAL_DNS = "ExternalDNS"

READY = "Ready"

NODE_MONITOR_GRACE_PERIOD = dt.timedelta(seconds=50)
"""How long a node may be silent before nobody knows how it is (kube-controller-manager's flag of that name)."""


class Taint(Struct):
    """Keeps pods away from a node unless they tolerate it."""

    key: Annotated[str, wire(1, "The taint's key.", required=True)] = always(str)
    value: Annotated[str, wire(2, "The taint's value.")] = ""
    effect: Annotated[
        str,
        wire(
            3, "What happens to pods that do not tolerate it.", required=True,
            enum=(NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE),
        ),
    ] = always(str)  # fmt: skip
    time_added: Annotated[Time | None, wire(4, "When the taint was added.")] = None


class NodeSelectorRequirement(Struct):
    """What holds of a label, or of a field, of the nodes that are meant."""

    key: Annotated[str, wire(1, "The label, or the field.", required=True)] = always(str)
    operator: Annotated[str, wire(2, "In, NotIn, Exists, DoesNotExist, Gt or Lt.", required=True)] = always(str)
    values: Annotated[list[str], wire(3, "The values.", list_type="atomic")] = []


@whole
class NodeSelectorTerm(Struct):
    """Nodes of which all of this holds."""

    match_expressions: Annotated[list[NodeSelectorRequirement], wire(1, "Of their labels.", list_type="atomic")] = []
    match_fields: Annotated[list[NodeSelectorRequirement], wire(2, "Of their fields.", list_type="atomic")] = []


@whole
class NodeSelector(Struct):
    """Nodes that fit one of the terms."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], wire(1, "The terms.", required=True, list_type="atomic")] = (
        always(list)
    )


class ConfigMapNodeConfigSource(Struct):
    """Names a key of a ConfigMap; part of a feature that is gone."""

    namespace: Annotated[str, wire(1, "Namespace of the ConfigMap.", required=True)] = always(str)
    name: Annotated[str, wire(2, "Name of the ConfigMap.", required=True)] = always(str)
    uid: Annotated[str, wire(3, "Its UID; set in the status only.")] = ""
    resource_version: Annotated[str, wire(4, "Its version; set in the status only.")] = ""
    kubelet_config_key: Annotated[str, wire(5, "The key that holds the configuration.", required=True)] = always(str)


class NodeConfigSource(Struct):
    """Where a kubelet once took its configuration from; part of a feature that is gone."""

    config_map: Annotated[ConfigMapNodeConfigSource | None, wire(2, "A key of a ConfigMap.")] = None


class NodeConfigStatus(Struct):
    """What became of the configuration source; part of a feature that is gone."""

    assigned: Annotated[NodeConfigSource | None, wire(1, "The source the node was told to use.")] = None
    active: Annotated[NodeConfigSource | None, wire(2, "The source the node uses.")] = None
    last_known_good: Annotated[NodeConfigSource | None, wire(3, "The source to fall back to.")] = None
    error: Annotated[str, wire(4, "What went wrong with the source.")] = ""


class NodeSpec(Struct):
    """How a node is meant to be."""

    pod_cidr: Annotated[str, wire(1, "The address range for pods on this node.")] = named("podCIDR")
    pod_cidrs: Annotated[
        list[str],
        wire(
            7, "The address ranges for pods, one an address family; the first equals podCIDR.",
            list_type="set", patch_strategy="merge",
        ),
    ] = named("podCIDRs", [])  # fmt: skip
    provider_id: Annotated[str, wire(3, "The machine behind the node, as the cloud provider names it.")] = named(
        "providerID"
    )
    unschedulable: Annotated[bool, wire(4, "True keeps new pods away.")] = False
    taints: Annotated[list[Taint], wire(5, "Keep pods away that do not tolerate them.", list_type="atomic")] = []
    config_source: Annotated[NodeConfigSource | None, wire(6, "Without effect: the feature is gone.")] = None
    external_id: Annotated[str, wire(2, "Without effect: no kubelet sets it any more.")] = named("externalID")


class NodeCondition(Struct):
    """One thing that is observed of a node, such as whether it is ready."""

    type: Annotated[str, wire(1, "What is observed.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    last_heartbeat_time: Annotated[Time | None, wire(3, "When it was last observed.")] = null()
    last_transition_time: Annotated[Time | None, wire(4, "When the status last changed.")] = null()
    reason: Annotated[str, wire(5, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(6, "What was observed, for people.")] = ""


class NodeAddress(Struct):
    """A name or an address under which a node is reached."""

    type: Annotated[str, wire(1, "Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.", required=True)] = (
        always(str)
    )
    address: Annotated[str, wire(2, "The name or address.", required=True)] = always(str)


class DaemonEndpoint(Struct):
    """A port on which a daemon of the node listens."""

    port: Annotated[Int32, wire(1, "The port.", required=True)] = always_named("Port", int)


class NodeDaemonEndpoints(Struct):
    """Where the daemons of a node listen."""

    kubelet_endpoint: Annotated[DaemonEndpoint, wire(1, "Where the kubelet listens.")] = always(DaemonEndpoint)


class NodeSwapStatus(Struct):
    """The swap space of a node."""

    capacity: Annotated[Int64 | None, wire(1, "Its size in bytes.")] = None


class NodeSystemInfo(Struct):
    """What a node says of its machine and its software."""

    machine_id: Annotated[str, wire(1, "The operating system's machine ID.", required=True)] = always_named(
        "machineID", str
    )
    system_uuid: Annotated[str, wire(2, "The machine's UUID from its firmware.", required=True)] = always_named(
        "systemUUID", str
    )
    boot_id: Annotated[str, wire(3, "Changes with every boot.", required=True)] = always_named("bootID", str)
    kernel_version: Annotated[str, wire(4, "Version of the kernel.", required=True)] = always(str)
    os_image: Annotated[str, wire(5, "Name of the operating system.", required=True)] = always(str)
    container_runtime_version: Annotated[str, wire(6, "Name and version of the container runtime.", required=True)] = (
        always(str)
    )
    kubelet_version: Annotated[str, wire(7, "Version of the kubelet.", required=True)] = always(str)
    kube_proxy_version: Annotated[str, wire(8, "No longer set.", required=True)] = always(str)
    operating_system: Annotated[str, wire(9, "Such as linux.", required=True)] = always(str)
    architecture: Annotated[str, wire(10, "Such as amd64.", required=True)] = always(str)
    swap: Annotated[NodeSwapStatus | None, wire(11, "The swap space.")] = None


class ContainerImage(Struct):
    """An image that lies on a node."""

    names: Annotated[list[str], wire(1, "Names of the image.", list_type="atomic")] = []
    size_bytes: Annotated[Int64, wire(2, "Its size in bytes.")] = 0


class AttachedVolume(Struct):
    """A volume that is attached to a node."""

    name: Annotated[str, wire(1, "Name of the volume.", required=True)] = always(str)
    device_path: Annotated[str, wire(2, "Where its device is.", required=True)] = always(str)


class NodeRuntimeHandlerFeatures(Struct):
    """What a runtime handler can do."""

    recursive_read_only_mounts: Annotated[bool | None, wire(1, "Mounts can be read-only all the way down.")] = None
    user_namespaces: Annotated[bool | None, wire(2, "Pods can have user namespaces of their own.")] = None


class NodeRuntimeHandler(Struct):
    """One way in which a node can run containers."""

    name: Annotated[str, wire(1, "Its name; empty for the default.")] = always(str)
    features: Annotated[NodeRuntimeHandlerFeatures | None, wire(2, "What it can do.")] = None


class NodeFeatures(Struct):
    """What the container runtime of a node can do, whatever the handler."""

    supplemental_groups_policy: Annotated[
        bool | None, wire(1, "It honours supplementalGroupsPolicy and containerUser.")
    ] = None


class NodeStatus(Struct):
    """What a node says of itself."""

    capacity: Annotated[dict[str, Quantity], wire(1, "All its resources.")] = {}
    allocatable: Annotated[dict[str, Quantity], wire(2, "The resources that pods may use; capacity if not given.")] = {}
    phase: Annotated[str, wire(3, "No longer set.", enum=("Pending", "Running", "Terminated"))] = ""
    conditions: Annotated[
        list[NodeCondition],
        wire(4, "What is observed of the node.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []
    addresses: Annotated[
        list[NodeAddress],
        wire(5, "Where the node is reached.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []
    daemon_endpoints: Annotated[NodeDaemonEndpoints, wire(6, "Where its daemons listen.")] = always(NodeDaemonEndpoints)
    node_info: Annotated[NodeSystemInfo, wire(7, "Its machine and software.")] = always(NodeSystemInfo)
    images: Annotated[list[ContainerImage], wire(8, "Images that lie on it.", list_type="atomic")] = []
    volumes_in_use: Annotated[list[str], wire(9, "Volumes that are mounted.", list_type="atomic")] = []
    volumes_attached: Annotated[list[AttachedVolume], wire(10, "Volumes that are attached.", list_type="atomic")] = []
    config: Annotated[NodeConfigStatus | None, wire(11, "Without effect: the feature is gone.")] = None
    runtime_handlers: Annotated[
        list[NodeRuntimeHandler], wire(12, "The ways it can run containers.", list_type="atomic")
    ] = []
    features: Annotated[NodeFeatures | None, wire(13, "What its container runtime can do.")] = None
    declared_features: Annotated[
        list[str], wire(14, "Kubernetes features that its kubelet declares.", list_type="atomic")
    ] = []


class Node(Object):
    """A machine that runs pods."""

    spec: Annotated[NodeSpec, wire(2, "How the node is meant to be.")] = always(NodeSpec)
    status: Annotated[NodeStatus, wire(3, "What the node says of itself.")] = always(NodeStatus)
