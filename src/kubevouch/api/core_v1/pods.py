"""Pod: kubevouch runs none, and keeps those that kubelets and Kubernetes have written as they are.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.containers import (
    AppArmorProfile,
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerRestartRule,
    EnvFromSource,
    EnvVar,
    Lifecycle,
    Probe,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
    VolumeDevice,
    VolumeMount,
    WindowsSecurityContextOptions,
)
from kubevouch.api.core_v1.pod_status import PodStatus
from kubevouch.api.core_v1.references import LocalObjectReference
from kubevouch.api.core_v1.scheduling import Affinity, PodSchedulingGate, Toleration, TopologySpreadConstraint
from kubevouch.api.core_v1.volumes import Volume
from kubevouch.machinery.declaration import Int32, Int64, Quantity, Struct, always, named, null, wire
from kubevouch.machinery.meta import Object


class Sysctl(Struct):
    """A parameter of the kernel."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    value: Annotated[str, wire(2, "Its value.", required=True)] = always(str)


class PodSecurityContext(Struct):
    """With what rights all of its containers run."""

    se_linux_options: Annotated[SELinuxOptions | None, wire(1, "A label of SELinux.")] = None
    windows_options: Annotated[WindowsSecurityContextOptions | None, wire(8, "What is set on Windows.")] = None
    run_as_user: Annotated[Int64 | None, wire(2, "The user.")] = None
    run_as_group: Annotated[Int64 | None, wire(6, "The group.")] = None
    run_as_non_root: Annotated[bool | None, wire(3, "The user must not be root.")] = None
    supplemental_groups: Annotated[list[Int64], wire(4, "More groups.", list_type="atomic")] = []
    supplemental_groups_policy: Annotated[str | None, wire(12, "How they go with those of the image.")] = None
    fs_group: Annotated[Int64 | None, wire(5, "The group of its volumes.")] = None
    sysctls: Annotated[list[Sysctl], wire(7, "Parameters of the kernel.", list_type="atomic")] = []
    fs_group_change_policy: Annotated[str | None, wire(9, "When the group of a volume is changed.")] = None
    seccomp_profile: Annotated[SeccompProfile | None, wire(10, "Which system calls there are.")] = None
    app_armor_profile: Annotated[AppArmorProfile | None, wire(11, "A profile of AppArmor.")] = None
    se_linux_change_policy: Annotated[str | None, wire(13, "How volumes are labelled.")] = None


class HostAlias(Struct):
    """Names of an address."""

    ip: Annotated[str, wire(1, "The address.", required=True)] = always(str)
    hostnames: Annotated[list[str], wire(2, "Its names.", list_type="atomic")] = []


class PodDNSConfigOption(Struct):
    """An option of the resolver."""

    name: Annotated[str, wire(1, "Its name.")] = ""
    value: Annotated[str | None, wire(2, "Its value.")] = None


class PodDNSConfig(Struct):
    """How names are resolved."""

    nameservers: Annotated[list[str], wire(1, "Who is asked.", list_type="atomic")] = []
    searches: Annotated[list[str], wire(2, "Domains that are searched.", list_type="atomic")] = []
    options: Annotated[list[PodDNSConfigOption], wire(3, "Options.", list_type="atomic")] = []


class PodReadinessGate(Struct):
    """A condition that a ready pod has."""

    condition_type: Annotated[str, wire(1, "Its type.", required=True)] = always(str)


class PodOS(Struct):
    """The operating system of a pod."""

    name: Annotated[str, wire(1, "linux or windows.", required=True)] = always(str)


class PodResourceClaim(Struct):
    """A claim of the pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    resource_claim_name: Annotated[str | None, wire(3, "The ResourceClaim.")] = None
    resource_claim_template_name: Annotated[str | None, wire(4, "The template of one for this pod.")] = None


class EphemeralContainer(Struct):
    """A container that was put into a running pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True, inside=(1,))] = always(str)
    image: Annotated[str, wire(2, "The image to run.", inside=(1,))] = ""
    command: Annotated[list[str], wire(3, "Replaces the image's entry point.", inside=(1,), list_type="atomic")] = []
    args: Annotated[list[str], wire(4, "Arguments of the command.", inside=(1,), list_type="atomic")] = []
    working_dir: Annotated[str, wire(5, "The directory to start in.", inside=(1,))] = ""
    ports: Annotated[
        list[ContainerPort],
        wire(
            6,
            "Not allowed.",
            inside=(1,),
            list_type="map",
            map_keys=("containerPort", "protocol"),
            patch_merge_key="containerPort",
        ),
    ] = []
    env_from: Annotated[list[EnvFromSource], wire(19, "Variables from objects.", inside=(1,), list_type="atomic")] = []
    env: Annotated[
        list[EnvVar], wire(7, "Variables.", inside=(1,), list_type="map", map_keys=("name",), patch_merge_key="name")
    ] = []
    resources: Annotated[ResourceRequirements, wire(8, "Not allowed.", inside=(1,))] = always(ResourceRequirements)
    resize_policy: Annotated[
        list[ContainerResizePolicy], wire(23, "What changes of resources do.", inside=(1,), list_type="atomic")
    ] = []
    restart_policy: Annotated[str | None, wire(24, "Not allowed.", inside=(1,))] = None
    restart_policy_rules: Annotated[
        list[ContainerRestartRule], wire(25, "Not allowed.", inside=(1,), list_type="atomic")
    ] = []
    volume_mounts: Annotated[
        list[VolumeMount],
        wire(
            9,
            "Where volumes are mounted.",
            inside=(1,),
            list_type="map",
            map_keys=("mountPath",),
            patch_merge_key="mountPath",
        ),
    ] = []
    volume_devices: Annotated[
        list[VolumeDevice],
        wire(
            21,
            "Where block devices are.",
            inside=(1,),
            list_type="map",
            map_keys=("devicePath",),
            patch_merge_key="devicePath",
        ),
    ] = []
    liveness_probe: Annotated[Probe | None, wire(10, "Not allowed.", inside=(1,))] = None
    readiness_probe: Annotated[Probe | None, wire(11, "Not allowed.", inside=(1,))] = None
    startup_probe: Annotated[Probe | None, wire(22, "Not allowed.", inside=(1,))] = None
    lifecycle: Annotated[Lifecycle | None, wire(12, "Not allowed.", inside=(1,))] = None
    termination_message_path: Annotated[str, wire(13, "The file of its last words.", inside=(1,))] = ""
    termination_message_policy: Annotated[str, wire(20, "Where its last words come from.", inside=(1,))] = ""
    image_pull_policy: Annotated[
        str, wire(14, "When to pull the image.", inside=(1,), enum=("Always", "IfNotPresent", "Never"))
    ] = ""
    security_context: Annotated[SecurityContext | None, wire(15, "With what rights it runs.", inside=(1,))] = None
    stdin: Annotated[bool, wire(16, "It has an input.", inside=(1,))] = False
    stdin_once: Annotated[bool, wire(17, "The input ends with the first client.", inside=(1,))] = False
    tty: Annotated[bool, wire(18, "It has a terminal.", inside=(1,))] = False
    target_container_name: Annotated[str, wire(2, "The container whose processes it sees.")] = ""


class PodSpec(Struct):
    """What a pod runs, and where."""

    volumes: Annotated[
        list[Volume],
        wire(1, "What its containers can mount.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    init_containers: Annotated[
        list[Container],
        wire(20, "Run to their end first.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    containers: Annotated[
        list[Container] | None,
        wire(2, "Run side by side.", required=True, list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = null()
    ephemeral_containers: Annotated[
        list[EphemeralContainer],
        wire(34, "Put in while it runs.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    restart_policy: Annotated[
        str, wire(3, "When containers are started again.", enum=("Always", "Never", "OnFailure"))
    ] = ""
    termination_grace_period_seconds: Annotated[Int64 | None, wire(4, "Seconds for a graceful end.")] = None
    active_deadline_seconds: Annotated[Int64 | None, wire(5, "Seconds after which the pod has failed.")] = None
    dns_policy: Annotated[
        str, wire(6, "How names are resolved.", enum=("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"))
    ] = ""
    node_selector: Annotated[dict[str, str], wire(7, "Labels the node must have.", atomic=True)] = {}
    service_account_name: Annotated[str, wire(8, "The pod's ServiceAccount.")] = ""
    service_account: Annotated[str, wire(9, "Older name of serviceAccountName.")] = ""
    automount_service_account_token: Annotated[bool | None, wire(21, "False keeps the token out.")] = None
    node_name: Annotated[str, wire(10, "The node it runs on.")] = ""
    host_network: Annotated[bool, wire(11, "Uses the node's network.")] = False
    host_pid: Annotated[bool, wire(12, "Sees the node's processes.")] = named("hostPID", False)
    host_ipc: Annotated[bool, wire(13, "Shares the node's IPC.")] = named("hostIPC", False)
    share_process_namespace: Annotated[bool | None, wire(27, "Containers see each other's processes.")] = None
    security_context: Annotated[PodSecurityContext | None, wire(14, "With what rights all of its containers run.")] = (
        None
    )
    image_pull_secrets: Annotated[
        list[LocalObjectReference],
        wire(15, "Secrets for pulling images.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    hostname: Annotated[str, wire(16, "Its host name.")] = ""
    subdomain: Annotated[str, wire(17, "Its domain within the namespace.")] = ""
    affinity: Annotated[Affinity | None, wire(18, "Where it belongs.")] = None
    scheduler_name: Annotated[str, wire(19, "Which scheduler places it.")] = ""
    tolerations: Annotated[list[Toleration], wire(22, "Taints it tolerates.", list_type="atomic")] = []
    host_aliases: Annotated[
        list[HostAlias], wire(23, "Names of addresses.", list_type="map", map_keys=("ip",), patch_merge_key="ip")
    ] = []
    priority_class_name: Annotated[str, wire(24, "Name of its priority.")] = ""
    priority: Annotated[Int32 | None, wire(25, "Its priority.")] = None
    dns_config: Annotated[PodDNSConfig | None, wire(26, "How names are resolved, in detail.")] = None
    readiness_gates: Annotated[
        list[PodReadinessGate], wire(28, "Conditions that it has when it is ready.", list_type="atomic")
    ] = []
    runtime_class_name: Annotated[str | None, wire(29, "The RuntimeClass that runs it.")] = None
    enable_service_links: Annotated[bool | None, wire(30, "Puts services into the environment.")] = None
    preemption_policy: Annotated[str | None, wire(31, "Whether others have to make room for it.")] = None
    overhead: Annotated[dict[str, Quantity], wire(32, "What running it takes by itself.")] = {}
    topology_spread_constraints: Annotated[
        list[TopologySpreadConstraint],
        wire(
            33,
            "How it is spread with others.",
            list_type="map",
            map_keys=("topologyKey", "whenUnsatisfiable"),
            patch_merge_key="topologyKey",
        ),
    ] = []
    set_hostname_as_fqdn: Annotated[bool | None, wire(35, "Its host name is its full name.")] = named(
        "setHostnameAsFQDN", None
    )
    os: Annotated[PodOS | None, wire(36, "Its operating system.")] = None
    host_users: Annotated[bool | None, wire(37, "It uses the node's user namespace.")] = None
    scheduling_gates: Annotated[
        list[PodSchedulingGate],
        wire(38, "What keeps it from being placed.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    resource_claims: Annotated[
        list[PodResourceClaim], wire(39, "Its claims.", list_type="map", map_keys=("name",), patch_merge_key="name")
    ] = []
    resources: Annotated[ResourceRequirements | None, wire(40, "What all of it may take and needs.")] = None
    hostname_override: Annotated[str | None, wire(41, "Its host name, whatever else is said.")] = None


class Pod(Object):
    """Containers that run together on a node."""

    spec: Annotated[PodSpec, wire(2, "What it runs, and where.")] = always(PodSpec)
    status: Annotated[PodStatus, wire(3, "What its node says of it.")] = always(PodStatus)
