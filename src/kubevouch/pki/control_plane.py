"""The certificates of a kubeadm control plane: who they are for, and who signs them (kubeadm 1.36)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.pki.authority import LeafSpec
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames, canonical
from kubevouch.pki.x509.usages import CLIENT_AUTH, SERVER_AUTH
from kubevouch.pki.x509.x509_certificate import Certificate

CA = "ca"
FRONT_PROXY_CA = "front-proxy-ca"
ETCD_CA = "etcd/ca"

AUTHORITIES: dict[str, str] = {CA: "kubernetes", FRONT_PROXY_CA: "front-proxy-ca", ETCD_CA: "etcd-ca"}
"""Base name under ``/etc/kubernetes/pki`` and common name of each authority."""


class ControlPlaneCertificate(msgspec.Struct, frozen=True):
    """``base_name`` is the path under ``/etc/kubernetes/pki`` without ``.crt``; ``signed_by`` that of the authority."""

    base_name: str
    signed_by: str
    spec: LeafSpec


class ControlPlaneNames(msgspec.Struct, frozen=True, kw_only=True):
    """What this control plane is called.

    Args:
        service_addresses: the first address of each family's service range.
        endpoint_host: the host of ``controlPlaneEndpoint``, if there is one.
        extra: ``certSANs`` of the API server; ``etcd_server_extra`` and ``etcd_peer_extra`` are those of etcd.
    """

    node_name: str
    advertise_address: str
    dns_domain: str = "cluster.local"
    service_addresses: tuple[str, ...] = ()
    endpoint_host: str = ""
    extra: tuple[str, ...] = ()
    etcd_server_extra: tuple[str, ...] = ()
    etcd_peer_extra: tuple[str, ...] = ()


def shares_key(clients: Iterable[Certificate], proxies: Iterable[Certificate]) -> bool:
    """Whether a CA of clients is one of the front proxy too; another certificate of the same key is no other CA."""
    keys_of_proxies = {proxy.public_key.canonical_info for proxy in proxies}
    return any(client.public_key.canonical_info in keys_of_proxies for client in clients)


def alt_names_of(names: Iterable[str]) -> SubjectAltNames:
    """Names and addresses sorted into kinds, each once; empty ones are left out."""
    dns_names: dict[str, None] = {}
    addresses: dict[ipaddress.IPv4Address | ipaddress.IPv6Address, None] = {}
    for name in names:
        if not name:
            continue
        try:
            addresses[canonical(ipaddress.ip_address(name))] = None
        except ValueError:
            dns_names[name] = None
    return SubjectAltNames(dns_names=tuple(dns_names), ip_addresses=tuple(addresses))


def apiserver(names: ControlPlaneNames) -> ControlPlaneCertificate:
    service = "kubernetes.default.svc"
    wanted = (
        names.node_name,
        "kubernetes",
        "kubernetes.default",
        service,
        f"{service}.{names.dns_domain}",
        *names.service_addresses,
        names.advertise_address,
        names.endpoint_host,
        *names.extra,
    )
    spec = LeafSpec(common_name="kube-apiserver", purposes=(SERVER_AUTH,), alt_names=alt_names_of(wanted))
    return ControlPlaneCertificate("apiserver", CA, spec)


def _client(base_name: str, signed_by: str, common_name: str) -> ControlPlaneCertificate:
    return ControlPlaneCertificate(base_name, signed_by, LeafSpec(common_name=common_name, purposes=(CLIENT_AUTH,)))


# No organization: rights come from bindings, which can be taken back. kubeadm 1.22 still put system:masters here.
APISERVER_KUBELET_CLIENT = _client("apiserver-kubelet-client", CA, "kube-apiserver-kubelet-client")
FRONT_PROXY_CLIENT = _client("front-proxy-client", FRONT_PROXY_CA, "front-proxy-client")
APISERVER_ETCD_CLIENT = _client("apiserver-etcd-client", ETCD_CA, "kube-apiserver-etcd-client")
ETCD_HEALTHCHECK_CLIENT = _client("etcd/healthcheck-client", ETCD_CA, "kube-etcd-healthcheck-client")


def _etcd_member(base_name: str, names: ControlPlaneNames, extra: tuple[str, ...]) -> ControlPlaneCertificate:
    """``etcd/server`` or ``etcd/peer``: named by the node, for both directions."""
    wanted = (names.node_name, "localhost", names.advertise_address, "127.0.0.1", "::1", *extra)
    spec = LeafSpec(common_name=names.node_name, purposes=(SERVER_AUTH, CLIENT_AUTH), alt_names=alt_names_of(wanted))
    return ControlPlaneCertificate(base_name, ETCD_CA, spec)


def catalog(names: ControlPlaneNames, *, etcd: bool = True) -> tuple[ControlPlaneCertificate, ...]:
    """Every leaf of ``/etc/kubernetes/pki``, in kubeadm's order."""
    leaves = (apiserver(names), APISERVER_KUBELET_CLIENT, FRONT_PROXY_CLIENT)
    if not etcd:
        return leaves
    return (
        *leaves,
        _etcd_member("etcd/server", names, names.etcd_server_extra),
        _etcd_member("etcd/peer", names, names.etcd_peer_extra),
        ETCD_HEALTHCHECK_CLIENT,
        APISERVER_ETCD_CLIENT,
    )


def _user(common_name: str, *organizations: str) -> LeafSpec:
    return LeafSpec(common_name=common_name, organizations=organizations, purposes=(CLIENT_AUTH,))


ADMIN = _user("kubernetes-admin", wellknown.CLUSTER_ADMINS_GROUP)
SUPER_ADMIN = _user("kubernetes-super-admin", wellknown.MASTERS_GROUP)
CONTROLLER_MANAGER = _user(wellknown.KUBE_CONTROLLER_MANAGER_USER)
SCHEDULER = _user(wellknown.KUBE_SCHEDULER_USER)


def kubelet(node_name: str) -> LeafSpec:
    """The certificate of ``kubelet.conf``."""
    return _user(f"{wellknown.NODE_USER_PREFIX}{node_name}", wellknown.NODES_GROUP)
