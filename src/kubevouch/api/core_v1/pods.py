"""Pod, in part: enough to say which pods are on which node, for which account, and whence images and certificates come.

kubevouch runs no pods. The kind is here so that kubelets can watch an empty collection of it, and so that bodies that
clients send are understood as far as these fields go. Environment, probes and the like are left out, and of volumes all
but the certificates that they hold.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.references import LocalObjectReference
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, named, null, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import Time


class Container(Struct):
    """One container of a pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    image: Annotated[str, wire(2, "The image to run.")] = ""
    command: Annotated[list[str], wire(3, "Replaces the image's entry point.", list_type="atomic")] = []
    args: Annotated[list[str], wire(4, "Arguments of the command.", list_type="atomic")] = []
    working_dir: Annotated[str, wire(5, "The directory to start in.")] = ""
    image_pull_policy: Annotated[str, wire(14, "When to pull the image.", enum=("Always", "IfNotPresent", "Never"))] = (
        ""
    )


class Toleration(Struct):
    """Lets a pod onto nodes with a taint."""

    key: Annotated[str, wire(1, "The taint's key; empty means every key.")] = ""
    operator: Annotated[str, wire(2, "How key and value are compared.")] = ""
    value: Annotated[str, wire(3, "The taint's value.")] = ""
    effect: Annotated[
        str,
        wire(4, "The taint's effect; empty means every effect.", enum=("NoExecute", "NoSchedule", "PreferNoSchedule")),
    ] = ""
    toleration_seconds: Annotated[Int64 | None, wire(5, "How long NoExecute is tolerated.")] = None


class PodCertificateProjection(Struct):
    """A key and a certificate for the pod, which the kubelet asks a signer for and keeps fresh."""

    signer_name: Annotated[str, wire(1, "Whose signature is wanted, as domain/path.", required=True)] = always(str)
    key_type: Annotated[
        str, wire(2, "RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519.", required=True)
    ] = always(str)
    max_expiration_seconds: Annotated[Int32 | None, wire(3, "How long the certificate may hold at most.")] = None
    credential_bundle_path: Annotated[str, wire(4, "The file for key and chain together.")] = ""
    key_path: Annotated[str, wire(5, "The file for the key.")] = ""
    certificate_chain_path: Annotated[str, wire(6, "The file for the chain.")] = ""
    user_annotations: Annotated[dict[str, str], wire(7, "What the pod's author tells the signer.")] = {}


class VolumeProjection(Struct):
    """One source of a projected volume."""

    pod_certificate: Annotated[PodCertificateProjection | None, wire(6, "A key and a certificate for the pod.")] = None


class ProjectedVolumeSource(Struct):
    """A volume that several sources share."""

    sources: Annotated[list[VolumeProjection] | None, wire(1, "What is in it.", list_type="atomic")] = null()
    default_mode: Annotated[Int32 | None, wire(2, "The mode of its files.")] = None


class Volume(Struct):
    """A volume of a pod."""

    name: Annotated[str, wire(1, "Its name within the pod.", required=True)] = always(str)
    projected: Annotated[ProjectedVolumeSource | None, wire(26, "Several sources in one folder.", inside=(2,))] = None


class PodSpec(Struct):
    """What a pod runs, and where."""

    volumes: Annotated[
        list[Volume],
        wire(
            1, "What its containers can mount.", list_type="map", map_keys=("name",), patch_merge_key="name",
        ),
    ] = []  # fmt: skip
    init_containers: Annotated[
        list[Container],
        wire(20, "Run to their end first.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    containers: Annotated[
        list[Container] | None,
        wire(
            2, "Run side by side.", required=True, list_type="map", map_keys=("name",), patch_merge_key="name",
        ),
    ] = null()  # fmt: skip
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
    image_pull_secrets: Annotated[
        list[LocalObjectReference],
        wire(15, "Secrets for pulling images.", list_type="map", map_keys=("name",), patch_merge_key="name"),
    ] = []
    hostname: Annotated[str, wire(16, "Its host name.")] = ""
    subdomain: Annotated[str, wire(17, "Its domain within the namespace.")] = ""
    scheduler_name: Annotated[str, wire(19, "Which scheduler places it.")] = ""
    tolerations: Annotated[list[Toleration], wire(22, "Taints it tolerates.", list_type="atomic")] = []
    priority_class_name: Annotated[str, wire(24, "Name of its priority.")] = ""
    priority: Annotated[Int32 | None, wire(25, "Its priority.")] = None
    runtime_class_name: Annotated[str | None, wire(29, "The RuntimeClass that runs it.")] = None
    enable_service_links: Annotated[bool | None, wire(30, "Puts services into the environment.")] = None


class PodCondition(Struct):
    """One thing that is observed of a pod."""

    type: Annotated[str, wire(1, "What is observed.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True)] = always(str)
    last_probe_time: Annotated[Time | None, wire(3, "When it was last observed.")] = null()
    last_transition_time: Annotated[Time | None, wire(4, "When the status last changed.")] = null()
    reason: Annotated[str, wire(5, "Why, in one word for machines.")] = ""
    message: Annotated[str, wire(6, "What was observed, for people.")] = ""


class PodStatus(Struct):
    """What a node says of a pod."""

    phase: Annotated[
        str, wire(1, "Where in its life it is.", enum=("Failed", "Pending", "Running", "Succeeded", "Unknown"))
    ] = ""
    conditions: Annotated[
        list[PodCondition],
        wire(2, "What is observed of it.", list_type="map", map_keys=("type",), patch_merge_key="type"),
    ] = []
    message: Annotated[str, wire(3, "Why it is in this phase, for people.")] = ""
    reason: Annotated[str, wire(4, "Why it is in this phase, in one word.")] = ""
    host_ip: Annotated[str, wire(5, "The node's address.")] = named("hostIP")
    pod_ip: Annotated[str, wire(6, "The pod's address.")] = named("podIP")
    start_time: Annotated[Time | None, wire(7, "When the kubelet took it on.")] = None


class Pod(Object):
    """Containers that run together on a node."""

    spec: Annotated[PodSpec, wire(2, "What it runs, and where.")] = always(PodSpec)
    status: Annotated[PodStatus, wire(3, "What its node says of it.")] = always(PodStatus)
