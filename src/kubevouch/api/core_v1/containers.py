"""Containers of a pod: what they run, what they are given, and how they are watched.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.machinery.declaration import (
    Int32,
    Int64,
    IntOrString,
    Quantity,
    Struct,
    always,
    named,
    null,
    whole,
    wire,
    zero,
)


class KeyToPath(Struct):
    """A key of a ConfigMap or Secret as a file."""

    key: Annotated[str, wire(1, "The key.", required=True)] = always(str)
    path: Annotated[str, wire(2, "The path of the file, below that of the volume.", required=True)] = always(str)
    mode: Annotated[Int32 | None, wire(3, "Its mode.")] = None


@whole
class ObjectFieldSelector(Struct):
    """A field of the pod itself."""

    api_version: Annotated[str, wire(1, "The version in which the path is written.")] = ""
    field_path: Annotated[str, wire(2, "The path of the field.", required=True)] = always(str)


@whole
class ResourceFieldSelector(Struct):
    """A limit or request of a container."""

    container_name: Annotated[str, wire(1, "The container.")] = ""
    resource: Annotated[str, wire(2, "The resource, such as limits.cpu.", required=True)] = always(str)
    divisor: Annotated[Quantity, wire(3, "The unit in which it is told.")] = always(zero)


@whole
class ConfigMapKeySelector(Struct):
    """A key of a ConfigMap."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    key: Annotated[str, wire(2, "The key.", required=True)] = always(str)
    optional: Annotated[bool | None, wire(3, "It may be missing.")] = None


@whole
class SecretKeySelector(Struct):
    """A key of a Secret."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    key: Annotated[str, wire(2, "The key.", required=True)] = always(str)
    optional: Annotated[bool | None, wire(3, "It may be missing.")] = None


@whole
class FileKeySelector(Struct):
    """A variable in a file."""

    volume_name: Annotated[str, wire(1, "The volume that has the file.", required=True)] = always(str)
    path: Annotated[str, wire(2, "The path of the file.", required=True)] = always(str)
    key: Annotated[str, wire(3, "The variable.", required=True)] = always(str)
    optional: Annotated[bool | None, wire(4, "It may be missing.")] = None


class EnvVarSource(Struct):
    """Where the value of a variable comes from."""

    field_ref: Annotated[ObjectFieldSelector | None, wire(1, "A field of the pod.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, wire(2, "A limit or request of a container.")] = None
    config_map_key_ref: Annotated[ConfigMapKeySelector | None, wire(3, "A key of a ConfigMap.")] = None
    secret_key_ref: Annotated[SecretKeySelector | None, wire(4, "A key of a Secret.")] = None
    file_key_ref: Annotated[FileKeySelector | None, wire(5, "A variable in a file.")] = None


class EnvVar(Struct):
    """A variable in the environment."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    value: Annotated[str, wire(2, "Its value.")] = ""
    value_from: Annotated[EnvVarSource | None, wire(3, "Where its value comes from.")] = None


class ConfigMapEnvSource(Struct):
    """All keys of a ConfigMap as variables."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    optional: Annotated[bool | None, wire(2, "It may be missing.")] = None


class SecretEnvSource(Struct):
    """All keys of a Secret as variables."""

    name: Annotated[str, wire(1, "Name of the object.", inside=(1,))] = ""
    optional: Annotated[bool | None, wire(2, "It may be missing.")] = None


class EnvFromSource(Struct):
    """Variables from an object."""

    prefix: Annotated[str, wire(1, "Is put before their names.")] = ""
    config_map_ref: Annotated[ConfigMapEnvSource | None, wire(2, "The ConfigMap.")] = None
    secret_ref: Annotated[SecretEnvSource | None, wire(3, "The Secret.")] = None


class ContainerPort(Struct):
    """A port that a container listens on."""

    name: Annotated[str, wire(1, "Its name.")] = ""
    host_port: Annotated[Int32, wire(2, "The port of the node.")] = 0
    container_port: Annotated[Int32, wire(3, "The port.", required=True)] = always(int)
    protocol: Annotated[str, wire(4, "TCP, UDP or SCTP.")] = ""
    host_ip: Annotated[str, wire(5, "The address of the node.")] = named("hostIP")


class ResourceClaim(Struct):
    """A claim of the pod that a container uses."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    request: Annotated[str, wire(2, "The request within the claim.")] = ""


class ResourceRequirements(Struct):
    """What a container may take and needs."""

    limits: Annotated[dict[str, Quantity], wire(1, "What it may take at most.")] = {}
    requests: Annotated[dict[str, Quantity], wire(2, "What it needs.")] = {}
    claims: Annotated[
        list[ResourceClaim], wire(3, "The claims that it uses.", list_type="map", map_keys=("name",))
    ] = []


class ContainerResizePolicy(Struct):
    """What a change of a resource does."""

    resource_name: Annotated[str, wire(1, "The resource.", required=True)] = always(str)
    restart_policy: Annotated[str, wire(2, "Whether the container is started again.", required=True)] = always(str)


class ContainerRestartRuleOnExitCodes(Struct):
    """Exit codes."""

    operator: Annotated[str, wire(1, "In or NotIn.", required=True)] = ""
    values: Annotated[list[Int32], wire(2, "The codes.", list_type="atomic")] = []


class ContainerRestartRule(Struct):
    """What an end of the container does."""

    action: Annotated[str, wire(1, "What is done.", required=True)] = ""
    exit_codes: Annotated[ContainerRestartRuleOnExitCodes | None, wire(2, "After which exit codes.")] = None


class VolumeMount(Struct):
    """Where a volume is mounted."""

    name: Annotated[str, wire(1, "The volume.", required=True)] = always(str)
    read_only: Annotated[bool, wire(2, "It cannot be written.")] = False
    recursive_read_only: Annotated[str | None, wire(7, "Whether mounts below are read-only too.")] = None
    mount_path: Annotated[str, wire(3, "The path in the container.", required=True)] = always(str)
    sub_path: Annotated[str, wire(4, "The path in the volume.")] = ""
    mount_propagation: Annotated[str | None, wire(5, "Whether mounts show on the other side.")] = None
    sub_path_expr: Annotated[str, wire(6, "The path in the volume, with variables.")] = ""


class VolumeDevice(Struct):
    """Where a block device is."""

    name: Annotated[str, wire(1, "The claim.", required=True)] = always(str)
    device_path: Annotated[str, wire(2, "The path in the container.", required=True)] = always(str)


class ExecAction(Struct):
    """A command in the container."""

    command: Annotated[list[str], wire(1, "The command and its arguments.", list_type="atomic")] = []


class HTTPHeader(Struct):
    """A header of a request."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
    value: Annotated[str, wire(2, "Its value.", required=True)] = always(str)


class HTTPGetAction(Struct):
    """A GET request."""

    path: Annotated[str, wire(1, "The path.")] = ""
    port: Annotated[IntOrString, wire(2, "The port or its name.", required=True)] = always(IntOrString)
    host: Annotated[str, wire(3, "The host; the pod's address unless said.")] = ""
    scheme: Annotated[str, wire(4, "HTTP or HTTPS.")] = ""
    http_headers: Annotated[list[HTTPHeader], wire(5, "Headers.", list_type="atomic")] = []


class TCPSocketAction(Struct):
    """A connection."""

    port: Annotated[IntOrString, wire(1, "The port or its name.", required=True)] = always(IntOrString)
    host: Annotated[str, wire(2, "The host; the pod's address unless said.")] = ""


class GRPCAction(Struct):
    """A health check of gRPC."""

    port: Annotated[Int32, wire(1, "The port.", required=True)] = always(int)
    service: Annotated[str | None, wire(2, "The service.")] = null()


class SleepAction(Struct):
    """A pause."""

    seconds: Annotated[Int64, wire(1, "How long.", required=True)] = always(int)


class Probe(Struct):
    """How one looks whether a container is well."""

    exec: Annotated[ExecAction | None, wire(1, "A command.", inside=(1,))] = None
    http_get: Annotated[HTTPGetAction | None, wire(2, "A request.", inside=(1,))] = None
    tcp_socket: Annotated[TCPSocketAction | None, wire(3, "A connection.", inside=(1,))] = None
    grpc: Annotated[GRPCAction | None, wire(4, "A health check of gRPC.", inside=(1,))] = None
    initial_delay_seconds: Annotated[Int32, wire(2, "Seconds before the first time.")] = 0
    timeout_seconds: Annotated[Int32, wire(3, "Seconds that it may take.")] = 0
    period_seconds: Annotated[Int32, wire(4, "Seconds between two.")] = 0
    success_threshold: Annotated[Int32, wire(5, "So many in a row are a success.")] = 0
    failure_threshold: Annotated[Int32, wire(6, "So many in a row are a failure.")] = 0
    termination_grace_period_seconds: Annotated[
        Int64 | None, wire(7, "Seconds for a graceful end after a failure.")
    ] = None


class LifecycleHandler(Struct):
    """What is done at an event."""

    exec: Annotated[ExecAction | None, wire(1, "A command.")] = None
    http_get: Annotated[HTTPGetAction | None, wire(2, "A request.")] = None
    tcp_socket: Annotated[TCPSocketAction | None, wire(3, "A connection; no longer done.")] = None
    sleep: Annotated[SleepAction | None, wire(4, "A pause.")] = None


class Lifecycle(Struct):
    """What is done when a container starts and stops."""

    post_start: Annotated[LifecycleHandler | None, wire(1, "After its start.")] = None
    pre_stop: Annotated[LifecycleHandler | None, wire(2, "Before its end.")] = None
    stop_signal: Annotated[str | None, wire(3, "The signal that stops it.")] = None


class Capabilities(Struct):
    """Capabilities of a process."""

    add: Annotated[list[str], wire(1, "Those that it gets.", list_type="atomic")] = []
    drop: Annotated[list[str], wire(2, "Those that it loses.", list_type="atomic")] = []


class SELinuxOptions(Struct):
    """A label of SELinux."""

    user: Annotated[str, wire(1, "The user.")] = ""
    role: Annotated[str, wire(2, "The role.")] = ""
    type: Annotated[str, wire(3, "The type.")] = ""
    level: Annotated[str, wire(4, "The level.")] = ""


class SeccompProfile(Struct):
    """Which system calls there are."""

    type: Annotated[str, wire(1, "Unconfined, RuntimeDefault or Localhost.", required=True)] = always(str)
    localhost_profile: Annotated[str | None, wire(2, "The file on the node.")] = None


class AppArmorProfile(Struct):
    """A profile of AppArmor."""

    type: Annotated[str, wire(1, "Unconfined, RuntimeDefault or Localhost.", required=True)] = always(str)
    localhost_profile: Annotated[str | None, wire(2, "The profile on the node.")] = None


class WindowsSecurityContextOptions(Struct):
    """What is set on Windows."""

    gmsa_credential_spec_name: Annotated[str | None, wire(1, "The name of the credential specification.")] = None
    gmsa_credential_spec: Annotated[str | None, wire(2, "The credential specification.")] = None
    run_as_user_name: Annotated[str | None, wire(3, "The user.")] = None
    host_process: Annotated[bool | None, wire(4, "It runs on the host.")] = None


class SecurityContext(Struct):
    """With what rights a container runs."""

    capabilities: Annotated[Capabilities | None, wire(1, "Capabilities.")] = None
    privileged: Annotated[bool | None, wire(2, "It has the rights of the node.")] = None
    se_linux_options: Annotated[SELinuxOptions | None, wire(3, "A label of SELinux.")] = None
    windows_options: Annotated[WindowsSecurityContextOptions | None, wire(10, "What is set on Windows.")] = None
    run_as_user: Annotated[Int64 | None, wire(4, "The user.")] = None
    run_as_group: Annotated[Int64 | None, wire(8, "The group.")] = None
    run_as_non_root: Annotated[bool | None, wire(5, "The user must not be root.")] = None
    read_only_root_filesystem: Annotated[bool | None, wire(6, "Its files cannot be written.")] = None
    allow_privilege_escalation: Annotated[bool | None, wire(7, "A process may get more rights than its parent.")] = None
    proc_mount: Annotated[str | None, wire(9, "How /proc is mounted.")] = None
    seccomp_profile: Annotated[SeccompProfile | None, wire(11, "Which system calls there are.")] = None
    app_armor_profile: Annotated[AppArmorProfile | None, wire(12, "A profile of AppArmor.")] = None


class Container(Struct):
    """One container of a pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    image: Annotated[str, wire(2, "The image to run.")] = ""
    command: Annotated[list[str], wire(3, "Replaces the image's entry point.", list_type="atomic")] = []
    args: Annotated[list[str], wire(4, "Arguments of the command.", list_type="atomic")] = []
    working_dir: Annotated[str, wire(5, "The directory to start in.")] = ""
    ports: Annotated[
        list[ContainerPort],
        wire(
            6,
            "The ports that it listens on.",
            list_type="map",
            map_keys=("containerPort", "protocol"),
            patch_merge_key="containerPort",
        ),
    ] = []
    env_from: Annotated[list[EnvFromSource], wire(19, "Variables from objects.", list_type="atomic")] = []
    env: Annotated[
        list[EnvVar], wire(7, "Variables.", list_type="map", map_keys=("name",), patch_merge_key="name")
    ] = []
    resources: Annotated[ResourceRequirements, wire(8, "What it may take and needs.")] = always(ResourceRequirements)
    resize_policy: Annotated[
        list[ContainerResizePolicy], wire(23, "What changes of resources do.", list_type="atomic")
    ] = []
    restart_policy: Annotated[str | None, wire(24, "When it is started again.")] = None
    restart_policy_rules: Annotated[
        list[ContainerRestartRule], wire(25, "What an end does, before the policy.", list_type="atomic")
    ] = []
    volume_mounts: Annotated[
        list[VolumeMount],
        wire(9, "Where volumes are mounted.", list_type="map", map_keys=("mountPath",), patch_merge_key="mountPath"),
    ] = []
    volume_devices: Annotated[
        list[VolumeDevice],
        wire(21, "Where block devices are.", list_type="map", map_keys=("devicePath",), patch_merge_key="devicePath"),
    ] = []
    liveness_probe: Annotated[Probe | None, wire(10, "Whether it has to be started again.")] = None
    readiness_probe: Annotated[Probe | None, wire(11, "Whether it can serve.")] = None
    startup_probe: Annotated[Probe | None, wire(22, "Whether it has started.")] = None
    lifecycle: Annotated[Lifecycle | None, wire(12, "What is done when it starts and stops.")] = None
    termination_message_path: Annotated[str, wire(13, "The file of its last words.")] = ""
    termination_message_policy: Annotated[str, wire(20, "Where its last words come from.")] = ""
    image_pull_policy: Annotated[str, wire(14, "When to pull the image.", enum=("Always", "IfNotPresent", "Never"))] = (
        ""
    )
    security_context: Annotated[SecurityContext | None, wire(15, "With what rights it runs.")] = None
    stdin: Annotated[bool, wire(16, "It has an input.")] = False
    stdin_once: Annotated[bool, wire(17, "The input ends with the first client.")] = False
    tty: Annotated[bool, wire(18, "It has a terminal.")] = False
