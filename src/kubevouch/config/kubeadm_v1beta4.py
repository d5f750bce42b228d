"""kubeadm.k8s.io/v1beta4: InitConfiguration, ClusterConfiguration, JoinConfiguration.

Unlike kubeadm, which warns, unknown and repeated fields are errors. Settings of parts that are not made here (images,
static pods, add-ons) are kept and published, but have no effect.

Source: cmd/kubeadm/app/apis/kubeadm/v1beta4/{types,defaults}.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from kubevouch.api.core_v1.nodes import Taint
from kubevouch.config import config_file
from kubevouch.config.config_file import ConfigFileError
from kubevouch.machinery.codec import json_codec, yamltext
from kubevouch.machinery.declaration import Int32, RawJSON, Struct, always, always_named, named, wire
from kubevouch.machinery.text.gotext import quote

GROUP_VERSION = "kubeadm.k8s.io/v1beta4"
INIT, CLUSTER, JOIN = "InitConfiguration", "ClusterConfiguration", "JoinConfiguration"
KUBELET_GROUP_VERSION, KUBELET = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
DEFAULT_BIND_PORT = 6443


class Arg(Struct):
    """One command line argument of a component; a name may be there several times."""

    name: Annotated[str, wire(1, "Without dashes.")] = always(str)
    value: Annotated[str, wire(2, "Its value.")] = always(str)


class HostPathMount(Struct):
    """A path of the machine that a static pod sees."""

    name: Annotated[str, wire(1, "Name of the volume.")] = always(str)
    host_path: Annotated[str, wire(2, "On the machine.")] = always(str)
    mount_path: Annotated[str, wire(3, "In the pod.")] = always(str)
    read_only: Annotated[bool, wire(4, "Whether it cannot be written.")] = False
    path_type: Annotated[str, wire(5, "Kind of the path.")] = ""


class ControlPlaneComponent(Struct):
    """Settings of a component that runs as a static pod."""

    extra_args: Annotated[list[Arg], wire(1, "More arguments.")] = []
    extra_volumes: Annotated[list[HostPathMount], wire(2, "More volumes.")] = []
    extra_envs: Annotated[list[RawJSON], wire(3, "More environment variables.")] = []


class APIServerComponent(ControlPlaneComponent):
    """The API server."""

    cert_sans: Annotated[list[str], wire(4, "More names for its serving certificate.")] = named("certSANs", [])


class LocalEtcd(Struct):
    """etcd on the control planes."""

    image_repository: Annotated[str, wire(1, "Where its image comes from.")] = ""
    image_tag: Annotated[str, wire(2, "Which one.")] = ""
    data_dir: Annotated[str, wire(3, "Its folder.")] = always(str)
    extra_args: Annotated[list[Arg], wire(4, "More arguments.")] = []
    extra_envs: Annotated[list[RawJSON], wire(5, "More environment variables.")] = []
    server_cert_sans: Annotated[list[str], wire(6, "More names for its serving certificate.")] = named(
        "serverCertSANs", []
    )
    peer_cert_sans: Annotated[list[str], wire(7, "More names for its peer certificate.")] = named("peerCertSANs", [])


class ExternalEtcd(Struct):
    """etcd elsewhere."""

    endpoints: Annotated[list[str], wire(1, "Its members.")] = always(list)
    ca_file: Annotated[str, wire(2, "The CA it is verified with.")] = always(str)
    cert_file: Annotated[str, wire(3, "The API server's client certificate.")] = always(str)
    key_file: Annotated[str, wire(4, "Its key.")] = always(str)
    http_endpoints: Annotated[list[str], wire(5, "Its members, for metrics and health.")] = named("httpEndpoints", [])


class Etcd(Struct):
    """One of both."""

    local: Annotated[LocalEtcd | None, wire(1, "On the control planes.")] = None
    external: Annotated[ExternalEtcd | None, wire(2, "Elsewhere.")] = None


class Networking(Struct):
    """The cluster's networks."""

    service_subnet: Annotated[str, wire(1, "Addresses of services.")] = ""
    pod_subnet: Annotated[str, wire(2, "Addresses of pods.")] = ""
    dns_domain: Annotated[str, wire(3, "Domain of services.")] = ""


class AddOn(Struct):
    """DNS or proxy."""

    image_repository: Annotated[str, wire(1, "Where its image comes from.")] = ""
    image_tag: Annotated[str, wire(2, "Which one.")] = ""
    disabled: Annotated[bool, wire(3, "Whether it is left out.")] = False


class ClusterConfiguration(Struct):
    """What all control planes of a cluster share; published in ``kube-system/kubeadm-config``."""

    etcd: Annotated[Etcd, wire(1, "Where etcd is.")] = always(Etcd)
    networking: Annotated[Networking, wire(2, "The networks.")] = always(Networking)
    kubernetes_version: Annotated[str, wire(3, "The version of the control plane.")] = ""
    control_plane_endpoint: Annotated[str, wire(4, "Address that all control planes share.")] = ""
    api_server: Annotated[APIServerComponent, wire(5, "The API server.")] = always(APIServerComponent)
    controller_manager: Annotated[ControlPlaneComponent, wire(6, "The controller manager.")] = always(
        ControlPlaneComponent
    )
    scheduler: Annotated[ControlPlaneComponent, wire(7, "The scheduler.")] = always(ControlPlaneComponent)
    dns: Annotated[AddOn, wire(8, "The DNS add-on.")] = always(AddOn)
    proxy: Annotated[AddOn, wire(9, "The proxy add-on.")] = always(AddOn)
    certificates_dir: Annotated[str, wire(10, "Folder of the certificates.")] = ""
    image_repository: Annotated[str, wire(11, "Where images come from.")] = ""
    feature_gates: Annotated[dict[str, bool], wire(12, "Features of kubeadm.")] = {}
    cluster_name: Annotated[str, wire(13, "Name of the cluster in kubeconfigs.")] = ""
    encryption_algorithm: Annotated[str, wire(14, "The kind of keys.")] = ""
    certificate_validity_period: Annotated[str, wire(15, "Life of certificates.")] = ""
    ca_certificate_validity_period: Annotated[str, wire(16, "Life of authorities.")] = ""


class NodeRegistration(Struct):
    """How a machine registers as a node."""

    name: Annotated[str, wire(1, "Name of the node.")] = ""
    cri_socket: Annotated[str, wire(2, "The container runtime.")] = ""
    taints: Annotated[list[Taint] | None, wire(3, "Taints of the node; none for an empty list.")] = None
    kubelet_extra_args: Annotated[list[Arg], wire(4, "More arguments of the kubelet.")] = []
    ignore_preflight_errors: Annotated[list[str], wire(5, "Checks that only warn.")] = []
    image_pull_policy: Annotated[str, wire(6, "When images are pulled.")] = ""
    image_pull_serial: Annotated[bool | None, wire(7, "One after the other.")] = None


class APIEndpoint(Struct):
    """Where the API server of this machine is reached."""

    advertise_address: Annotated[str, wire(1, "Its address.")] = ""
    bind_port: Annotated[Int32, wire(2, "Its port.")] = 0


class BootstrapTokenSettings(Struct):
    """A bootstrap token to make."""

    token: Annotated[str, wire(1, "The token; empty for a random one.")] = ""
    description: Annotated[str, wire(2, "For people.")] = ""
    ttl: Annotated[str, wire(3, "Its life.")] = ""
    expires: Annotated[str, wire(4, "Its end, RFC 3339.")] = ""
    usages: Annotated[list[str], wire(5, "What it is for.")] = []
    groups: Annotated[list[str], wire(6, "Groups it gives.")] = []


class Patches(Struct):
    """Changes of static pods."""

    directory: Annotated[str, wire(1, "Their folder.")] = ""


class WaitTimes(Struct):
    """How long to wait for what."""

    control_plane_component_health_check: Annotated[str, wire(1, "For the control plane.")] = ""
    kubelet_health_check: Annotated[str, wire(2, "For the kubelet.")] = ""
    kubernetes_api_call: Annotated[str, wire(3, "For a call of the API.")] = named("kubernetesAPICall")
    etcd_api_call: Annotated[str, wire(4, "For a call of etcd.")] = named("etcdAPICall")
    tls_bootstrap: Annotated[str, wire(5, "For the certificate of a node.")] = ""
    discovery: Annotated[str, wire(6, "For discovery.")] = ""
    upgrade_manifests: Annotated[str, wire(7, "For new static pods.")] = ""


class InitConfiguration(Struct):
    """What ``init`` does on this machine."""

    bootstrap_tokens: Annotated[list[BootstrapTokenSettings], wire(1, "Tokens to make.")] = []
    dry_run: Annotated[bool, wire(2, "Change nothing.")] = False
    node_registration: Annotated[NodeRegistration, wire(3, "The node.")] = always(NodeRegistration)
    local_api_endpoint: Annotated[APIEndpoint, wire(4, "The API server of this machine.")] = always_named(
        "localAPIEndpoint", APIEndpoint
    )
    certificate_key: Annotated[str, wire(5, "Under which certificates are uploaded.")] = ""
    skip_phases: Annotated[list[str], wire(6, "Phases to leave out.")] = []
    patches: Annotated[Patches | None, wire(7, "Changes of static pods.")] = None
    timeouts: Annotated[WaitTimes | None, wire(8, "How long to wait.")] = None


class BootstrapTokenDiscovery(Struct):
    """Discovery by token."""

    token: Annotated[str, wire(1, "The token.")] = ""
    api_server_endpoint: Annotated[str, wire(2, "HOST:PORT.")] = ""
    ca_cert_hashes: Annotated[list[str], wire(3, "Hashes of the CA.")] = []
    unsafe_skip_ca_verification: Annotated[bool, wire(4, "Go without a hash.")] = named(
        "unsafeSkipCAVerification", False
    )


class FileDiscovery(Struct):
    """Discovery by a kubeconfig."""

    kube_config_path: Annotated[str, wire(1, "Path or https URL.")] = ""


class Discovery(Struct):
    """One of both, and what the machine authenticates with."""

    bootstrap_token: Annotated[BootstrapTokenDiscovery | None, wire(1, "By token.")] = None
    file: Annotated[FileDiscovery | None, wire(2, "By a kubeconfig.")] = None
    tls_bootstrap_token: Annotated[str, wire(3, "The token for the certificate request.")] = ""


class JoinControlPlane(Struct):
    """Says that the machine becomes a control plane."""

    local_api_endpoint: Annotated[APIEndpoint, wire(1, "Its API server.")] = always_named(
        "localAPIEndpoint", APIEndpoint
    )
    certificate_key: Annotated[str, wire(2, "Under which certificates were uploaded.")] = ""


class JoinConfiguration(Struct):
    """What ``join`` does."""

    dry_run: Annotated[bool, wire(1, "Change nothing.")] = False
    node_registration: Annotated[NodeRegistration, wire(2, "The node.")] = always(NodeRegistration)
    ca_cert_path: Annotated[str, wire(3, "Where the CA is written.")] = ""
    discovery: Annotated[Discovery, wire(4, "How the cluster is found.")] = always(Discovery)
    control_plane: Annotated[JoinControlPlane | None, wire(5, "Become a control plane.")] = None
    skip_phases: Annotated[list[str], wire(6, "Phases to leave out.")] = []
    patches: Annotated[Patches | None, wire(7, "Changes of static pods.")] = None
    timeouts: Annotated[WaitTimes | None, wire(8, "How long to wait.")] = None


_KINDS: dict[str, type[Struct]] = {INIT: InitConfiguration, CLUSTER: ClusterConfiguration, JOIN: JoinConfiguration}
_SEPARATOR = re.compile(r"(?m)^---[ \t]*(?:#.*)?$")


class Documents(Struct):
    """What a configuration file holds, each at most once. ``kubelet`` is the tree of a KubeletConfiguration."""

    init: InitConfiguration | None = None
    cluster: ClusterConfiguration | None = None
    join: JoinConfiguration | None = None
    kubelet: dict[str, Any] | None = None
    passed_over: tuple[str, ...] = ()


def load(text: bytes) -> Documents:
    """The documents of a file.

    Raises:
        ConfigFileError: no YAML, an old version, a kind that is there twice, unknown or repeated fields.
    """
    if len(text) > config_file.MAX_BYTES:
        raise ConfigFileError(f"got {len(text)} bytes, expected at most {config_file.MAX_BYTES}")
    try:
        whole = text.decode()
    except UnicodeDecodeError as err:
        raise ConfigFileError("yaml: invalid leading UTF-8 octet") from err
    found: dict[str, Any] = {}
    passed_over = []
    for document in _SEPARATOR.split(whole):
        kind, value = _document(document)
        if kind in found:
            raise ConfigFileError(f"invalid configuration: kind {quote(kind)} is there twice")
        if kind and value is None:
            passed_over.append(kind)
        elif kind:
            found[kind] = value
    if not found:
        raise ConfigFileError(f"no {INIT}, {CLUSTER} or {JOIN} kind was found in the YAML file")
    return Documents(
        init=found.get(INIT),
        cluster=found.get(CLUSTER),
        join=found.get(JOIN),
        kubelet=found.get(KUBELET),
        passed_over=tuple(passed_over),
    )


def _document(text: str) -> tuple[str, Any]:
    """Kind and value; no kind for an empty document, no value for one that is about something else."""
    try:
        tree, repeated = yamltext.loads(text)
    except yamltext.YAMLError as err:
        raise ConfigFileError(str(err)) from err
    if tree is None:
        return "", None
    if not isinstance(tree, dict):
        raise ConfigFileError("no configuration: expected apiVersion and kind")
    kind, version = str(tree.get("kind") or ""), str(tree.get("apiVersion") or "")
    if not kind or not version:
        raise ConfigFileError(
            "invalid configuration: kind and apiVersion is mandatory information that must be specified"
        )
    if (version, kind) == (KUBELET_GROUP_VERSION, KUBELET):
        if repeated:
            raise ConfigFileError(f"strict decoding error: {', '.join(repeated)}")
        return kind, tree
    if not version.startswith("kubeadm.k8s.io/"):
        return kind, None
    if version != GROUP_VERSION:
        raise ConfigFileError(f"{kind} is of {version}, expected {GROUP_VERSION}")
    versions: Mapping[str, type[Struct]] = {GROUP_VERSION: _KINDS[kind]} if kind in _KINDS else {}
    return kind, config_file.decode(text.encode(), kind, versions)


def dump_cluster(config: ClusterConfiguration) -> str:
    """As kubeadm publishes it."""
    tree = json_codec.to_builtins(config)
    return yamltext.dumps({**tree, "apiVersion": GROUP_VERSION, "kind": CLUSTER})
