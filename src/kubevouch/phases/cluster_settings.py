"""What a control plane is made from: kubeadm's configuration with its defaults filled in (v1beta4, Kubernetes 1.36).

One default differs: keys are ECDSA-P256 unless ``encryptionAlgorithm`` says otherwise; kubeadm's are RSA-2048.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.client.endpoint import Endpoint, EndpointError, parse_endpoint
from kubevouch.config.kubeadm_v1beta4 import (
    DEFAULT_BIND_PORT,
    APIEndpoint,
    ClusterConfiguration,
    Etcd,
    InitConfiguration,
    LocalEtcd,
    Networking,
)
from kubevouch.machinery.text import gotext, names
from kubevouch.machinery.text.gotext import quote
from kubevouch.phases.certificates.certs import DEFAULT_ALGORITHM
from kubevouch.phases.certificates.control_plane_files import PKI_FOLDER
from kubevouch.phases.kubeconfig import CLUSTER_NAME
from kubevouch.pki.authority import AUTHORITY_VALIDITY, LEAF_VALIDITY
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.keys import KeyAlgorithm

SERVICE_SUBNET, DNS_DOMAIN = "10.96.0.0/12", "cluster.local"
IMAGE_REPOSITORY, ETCD_FOLDER = "registry.k8s.io", "/var/lib/etcd"
_DNS_ADDRESS, _API_SERVER_ADDRESS = 10, 1  # which address of the service range, as everywhere in Kubernetes
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?", re.ASCII)


class SettingsError(Exception):
    """A setting that cannot be meant; nothing was changed. ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ClusterSettings(msgspec.Struct, frozen=True):
    """A control plane to be: complete and checked.

    Args:
        init: what concerns this machine only.
        kubelet: settings of a KubeletConfiguration that differ from ours.
    """

    cluster: ClusterConfiguration
    init: InitConfiguration
    node_name: str
    kubelet: dict[str, Any] | None = None

    @property
    def local(self) -> Endpoint:
        """The API server of this machine."""
        local = self.init.local_api_endpoint
        return Endpoint(local.advertise_address, local.bind_port)

    @property
    def shared(self) -> Endpoint:
        """The address under which machines reach the control plane."""
        return control_plane_endpoint(self.cluster.control_plane_endpoint, self.local.port) or self.local

    @property
    def algorithm(self) -> KeyAlgorithm:
        return KeyAlgorithm.parse(self.cluster.encryption_algorithm)

    @property
    def leaf_validity(self) -> dt.timedelta:
        return gotext.parse_duration(self.cluster.certificate_validity_period)

    @property
    def authority_validity(self) -> dt.timedelta:
        return gotext.parse_duration(self.cluster.ca_certificate_validity_period)

    @property
    def local_etcd(self) -> LocalEtcd | None:
        """None where etcd is elsewhere."""
        return self.cluster.etcd.local

    @property
    def dns_address(self) -> str:
        return _nth_addresses(self.cluster.networking.service_subnet, _DNS_ADDRESS)[0]

    @property
    def names(self) -> ControlPlaneNames:
        etcd = self.local_etcd
        shared = self.cluster.control_plane_endpoint
        return ControlPlaneNames(
            node_name=self.node_name,
            advertise_address=self.local.host,
            dns_domain=self.cluster.networking.dns_domain,
            service_addresses=_nth_addresses(self.cluster.networking.service_subnet, _API_SERVER_ADDRESS),
            endpoint_host=self.shared.host if shared else "",
            extra=tuple(self.cluster.api_server.cert_sans),
            etcd_server_extra=tuple(etcd.server_cert_sans) if etcd else (),
            etcd_peer_extra=tuple(etcd.peer_cert_sans) if etcd else (),
        )


def complete(
    cluster: ClusterConfiguration,
    init: InitConfiguration,
    *,
    host_name: str,
    address: str,
    version: str,
    node_name: str = "",
    kubelet: dict[str, Any] | None = None,
) -> ClusterSettings:
    """Fill in defaults and check.

    Args:
        node_name: beats the one in ``init``; ``host_name`` is what stands for neither.
        address: the default address of the API server.
        version: the default Kubernetes version.

    Raises:
        SettingsError
    """
    etcd = cluster.etcd
    if etcd.local is not None and etcd.external is not None:
        raise SettingsError("etcd.local and etcd.external are mutually exclusive")
    if etcd.external is None:
        local = etcd.local or LocalEtcd()
        etcd = Etcd(local=msgspec.structs.replace(local, data_dir=local.data_dir or ETCD_FOLDER))
    network = cluster.networking
    cluster = msgspec.structs.replace(
        cluster,
        etcd=etcd,
        networking=Networking(
            service_subnet=network.service_subnet or SERVICE_SUBNET,
            pod_subnet=network.pod_subnet,
            dns_domain=network.dns_domain or DNS_DOMAIN,
        ),
        kubernetes_version=_version(cluster.kubernetes_version or version),
        certificates_dir=cluster.certificates_dir or str(PKI_FOLDER),
        image_repository=cluster.image_repository or IMAGE_REPOSITORY,
        cluster_name=cluster.cluster_name or CLUSTER_NAME,
        encryption_algorithm=cluster.encryption_algorithm or DEFAULT_ALGORITHM.value,
        certificate_validity_period=cluster.certificate_validity_period or gotext.format_duration(LEAF_VALIDITY),
        ca_certificate_validity_period=cluster.ca_certificate_validity_period
        or gotext.format_duration(AUTHORITY_VALIDITY),
    )
    endpoint = init.local_api_endpoint
    init = msgspec.structs.replace(
        init,
        local_api_endpoint=APIEndpoint(
            advertise_address=endpoint.advertise_address or address,
            bind_port=endpoint.bind_port or DEFAULT_BIND_PORT,
        ),
    )
    name = (node_name or init.node_registration.name or host_name).strip().lower()
    settings = ClusterSettings(cluster, init, name, kubelet)
    _verify(settings)
    return settings


def _verify(settings: ClusterSettings) -> None:
    cluster = settings.cluster
    faults = names.subdomain(settings.node_name)
    if faults:
        raise SettingsError(f"the node name {quote(settings.node_name)} cannot be used: {faults[0]}")
    try:
        ipaddress.ip_address(settings.local.host)
    except ValueError as err:
        raise SettingsError(f"got the advertise address {quote(settings.local.host)}, expected an IP address") from err
    if not 0 < settings.local.port < 65536:
        raise SettingsError(f"got the bind port {settings.local.port}, expected 1 to 65535")
    if names.subdomain(cluster.networking.dns_domain):
        raise SettingsError(f"got the DNS domain {quote(cluster.networking.dns_domain)}, expected a DNS name")
    for what, text in (
        ("certificateValidityPeriod", cluster.certificate_validity_period),
        ("caCertificateValidityPeriod", cluster.ca_certificate_validity_period),
    ):
        try:
            sound = gotext.parse_duration(text) > dt.timedelta()
        except ValueError:
            sound = False
        if not sound:
            raise SettingsError(f"got the {what} {quote(text)}, expected a duration such as 8760h")
    try:
        KeyAlgorithm.parse(cluster.encryption_algorithm)
    except KeyMaterialError as err:
        raise SettingsError(str(err)) from err
    if not Path(cluster.certificates_dir).is_absolute():
        raise SettingsError(f"got the certificatesDir {quote(cluster.certificates_dir)}, expected an absolute path")
    control_plane_endpoint(cluster.control_plane_endpoint, settings.local.port)
    _nth_addresses(cluster.networking.service_subnet, _DNS_ADDRESS)


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise SettingsError(
            f"got the Kubernetes version {quote(text)}, expected one such as v1.36.2",
            "labels such as stable-1 are looked up on the internet, which nothing here does",
        )
    return text if text.startswith("v") else f"v{text}"


def control_plane_endpoint(text: str, port: int) -> Endpoint | None:
    """What ``--control-plane-endpoint`` means; without a port it has ``port``. Raises :class:`SettingsError`."""
    if not text:
        return None
    bare = text.startswith("[") and text.endswith("]")
    with_port = text if not bare and (text.count(":") == 1 or "]:" in text) else f"{_bracketed(text)}:{port}"
    try:
        return parse_endpoint(with_port)
    except EndpointError as err:
        raise SettingsError(f"got the controlPlaneEndpoint {quote(text)}, expected HOST or HOST:PORT: {err}") from err


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _nth_addresses(subnets: str, index: int) -> tuple[str, ...]:
    """The address number ``index`` of each range. Raises :class:`SettingsError`."""
    found = []
    for text in subnets.split(","):
        try:
            found.append(str(ipaddress.ip_network(text.strip())[index]))
        except (ValueError, IndexError) as err:
            raise SettingsError(f"got the service subnet {quote(text)}, expected one such as {SERVICE_SUBNET}") from err
    return tuple(found)
