"""What a node says of a pod and of its containers.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.containers import ResourceRequirements
from kubevouch.machinery.declaration import Int32, Int64, Quantity, Struct, always, always_named, named, null, wire
from kubevouch.machinery.text.times import Time


class ContainerStateWaiting(Struct):
    """A container that does not run yet."""

    reason: Annotated[str, wire(1, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(2, "Why, for people.")] = ""


class ContainerStateRunning(Struct):
    """A container that runs."""

    started_at: Annotated[Time | None, wire(1, "Since when.")] = null()


class ContainerStateTerminated(Struct):
    """A container that has ended."""

    exit_code: Annotated[Int32, wire(1, "Its exit code.", required=True)] = always(int)
    signal: Annotated[Int32, wire(2, "The signal that ended it.")] = 0
    reason: Annotated[str, wire(3, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(4, "Its last words.")] = ""
    started_at: Annotated[Time | None, wire(5, "When it began.")] = null()
    finished_at: Annotated[Time | None, wire(6, "When it ended.")] = null()
    container_id: Annotated[str, wire(7, "Its identifier in the runtime.")] = named("containerID")


class ContainerState(Struct):
    """One of three."""

    waiting: Annotated[ContainerStateWaiting | None, wire(1, "It does not run yet.")] = None
    running: Annotated[ContainerStateRunning | None, wire(2, "It runs.")] = None
    terminated: Annotated[ContainerStateTerminated | None, wire(3, "It has ended.")] = None


class VolumeMountStatus(Struct):
    """What became of a mount."""

    name: Annotated[str, wire(1, "The volume.", required=True)] = always(str)
    mount_path: Annotated[str, wire(2, "The path in the container.", required=True)] = always(str)
    read_only: Annotated[bool, wire(3, "It cannot be written.")] = False
    recursive_read_only: Annotated[str | None, wire(4, "Whether mounts below are read-only too.")] = None


class LinuxContainerUser(Struct):
    """A user on Linux."""

    uid: Annotated[Int64, wire(1, "The user.", required=True)] = always(int)
    gid: Annotated[Int64, wire(2, "The group.", required=True)] = always(int)
    supplemental_groups: Annotated[list[Int64], wire(3, "More groups.", list_type="atomic")] = []


class ContainerUser(Struct):
    """Who a container runs as."""

    linux: Annotated[LinuxContainerUser | None, wire(1, "On Linux.")] = None


class ResourceHealth(Struct):
    """How a device is."""

    resource_id: Annotated[str, wire(1, "The device.", required=True)] = always_named("resourceID", str)
    health: Annotated[str, wire(2, "Healthy, Unhealthy or Unknown.")] = ""


class ResourceStatus(Struct):
    """How the devices of a resource are."""

    name: Annotated[str, wire(1, "The resource.", required=True)] = always(str)
    resources: Annotated[list[ResourceHealth], wire(2, "Its devices.", list_type="map", map_keys=("resourceID",))] = []


class ContainerStatus(Struct):
    """What a node says of a container."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    state: Annotated[ContainerState, wire(2, "What it does.")] = always(ContainerState)
    last_state: Annotated[ContainerState, wire(3, "What it did before.")] = always(ContainerState)
    ready: Annotated[bool, wire(4, "Whether it can serve.", required=True)] = always(bool)
    restart_count: Annotated[Int32, wire(5, "How often it was started again.", required=True)] = always(int)
    image: Annotated[str, wire(6, "The image.", required=True)] = always(str)
    image_id: Annotated[str, wire(7, "The image's digest.", required=True)] = always_named("imageID", str)
    container_id: Annotated[str, wire(8, "Its identifier in the runtime.")] = named("containerID")
    started: Annotated[bool | None, wire(9, "Whether it has started.")] = None
    allocated_resources: Annotated[dict[str, Quantity], wire(10, "What the node set aside for it.")] = {}
    resources: Annotated[ResourceRequirements | None, wire(11, "What it may take and needs.")] = None
    volume_mounts: Annotated[
        list[VolumeMountStatus],
        wire(12, "What became of its mounts.", list_type="map", map_keys=("mountPath",), patch_merge_key="mountPath"),
    ] = []
    user: Annotated[ContainerUser | None, wire(13, "Who it runs as.")] = None
    allocated_resources_status: Annotated[
        list[ResourceStatus],
        wire(14, "How its devices are.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    stop_signal: Annotated[str | None, wire(15, "The signal that stops it.")] = None


class PodCondition(Struct):
    """One thing that is observed of a pod."""

    type: Annotated[str, wire(1, "What is observed.", required=True)] = always(str)
    observed_generation: Annotated[Int64, wire(7, "The generation that this is about.")] = 0
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    last_probe_time: Annotated[Time | None, wire(3, "When it was last observed.")] = null()
    last_transition_time: Annotated[Time | None, wire(4, "When the status last changed.")] = null()
    reason: Annotated[str, wire(5, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(6, "What was observed, for people.")] = ""


class HostIP(Struct):
    """An address of the node."""

    ip: Annotated[str, wire(1, "The address.", required=True)] = always(str)


class PodIP(Struct):
    """An address of the pod."""

    ip: Annotated[str, wire(1, "The address.", required=True)] = always(str)


class PodResourceClaimStatus(Struct):
    """What became of a claim."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    resource_claim_name: Annotated[str | None, wire(2, "The ResourceClaim.")] = None


class ContainerExtendedResourceRequest(Struct):
    """A request that stands for an extended resource of a container."""

    container_name: Annotated[str, wire(1, "The container.", required=True)] = always(str)
    resource_name: Annotated[str, wire(2, "The resource.", required=True)] = always(str)
    request_name: Annotated[str, wire(3, "The request.", required=True)] = always(str)


class PodExtendedResourceClaimStatus(Struct):
    """The claim that stands for extended resources."""

    request_mappings: Annotated[
        list[ContainerExtendedResourceRequest], wire(1, "What stands for what.", required=True, list_type="atomic")
    ] = always(list)
    resource_claim_name: Annotated[str, wire(2, "The ResourceClaim.", required=True)] = always(str)


class PodStatus(Struct):
    """What a node says of a pod."""

    observed_generation: Annotated[Int64, wire(17, "The generation that this is about.")] = 0
    phase: Annotated[
        str, wire(1, "Where in its life it is.", enum=("Failed", "Pending", "Running", "Succeeded", "Unknown"))
    ] = ""
    conditions: Annotated[
        list[PodCondition],
        wire(2, "What is observed of it.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []
    message: Annotated[str, wire(3, "Why it is in this phase, for people.")] = ""
    reason: Annotated[str, wire(4, "Why it is in this phase, in one word.")] = ""
    nominated_node_name: Annotated[str, wire(11, "The node on which room is made for it.")] = ""
    host_ip: Annotated[str, wire(5, "The node's address.")] = named("hostIP")
    host_ips: Annotated[list[HostIP], wire(16, "The node's addresses.", list_type="atomic", patch_merge_key="ip")] = (
        named("hostIPs", [])
    )
    pod_ip: Annotated[str, wire(6, "The pod's address.")] = named("podIP")
    pod_ips: Annotated[
        list[PodIP], wire(12, "The pod's addresses.", list_type="map", map_keys=("ip",), patch_merge_key="ip")
    ] = named("podIPs", [])
    start_time: Annotated[Time | None, wire(7, "When the kubelet took it on.")] = None
    init_container_statuses: Annotated[
        list[ContainerStatus], wire(10, "What its node says of containers that run first.", list_type="atomic")
    ] = []
    container_statuses: Annotated[
        list[ContainerStatus], wire(8, "What its node says of its containers.", list_type="atomic")
    ] = []
    qos_class: Annotated[str, wire(9, "How it is treated when the node runs out.")] = ""
    ephemeral_container_statuses: Annotated[
        list[ContainerStatus], wire(13, "What its node says of containers put in later.", list_type="atomic")
    ] = []
    resize: Annotated[str, wire(14, "What became of a change of resources; no longer set.")] = ""
    resource_claim_statuses: Annotated[
        list[PodResourceClaimStatus],
        wire(15, "What became of its claims.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    extended_resource_claim_status: Annotated[
        PodExtendedResourceClaimStatus | None, wire(18, "The claim that stands for extended resources.")
    ] = None
