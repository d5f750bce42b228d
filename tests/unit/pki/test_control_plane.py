"""Who the certificates of a control plane are for; kubeadm's own are in tests/contract/test_kubeadm_files.py."""

from __future__ import annotations

import ipaddress

from kubevouch.pki import control_plane
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

NAMES = ControlPlaneNames(
    node_name="first", advertise_address="192.0.2.1", service_addresses=("10.96.0.1",), endpoint_host="api.example",
    extra=("192.0.2.1", "more"), etcd_server_extra=("etcd.example",), etcd_peer_extra=("peer.example",),
)  # fmt: skip
HERE = ("127.0.0.1", "::1")


def addresses(*texts: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
    return tuple(map(ipaddress.ip_address, texts))


def test_names_are_sorted_into_kinds_each_once() -> None:
    found = control_plane.alt_names_of(["b", "", "::ffff:192.0.2.1", "a", "b", "192.0.2.1"])
    assert found == SubjectAltNames(dns_names=("b", "a"), ip_addresses=addresses("192.0.2.1"))


def test_the_api_server_is_called_by_its_names() -> None:
    wanted = control_plane.apiserver(NAMES)
    service = tuple(f"kubernetes{rest}" for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local"))
    assert wanted.spec.alt_names == SubjectAltNames(
        dns_names=("first", *service, "api.example", "more"), ip_addresses=addresses("10.96.0.1", "192.0.2.1")
    )


def test_who_signs_what_for_whom_and_for_what() -> None:
    found = {
        each.base_name: (each.signed_by, each.spec.common_name, each.spec.organizations, each.spec.purposes)
        for each in control_plane.catalog(NAMES)
    }
    client, server = "client auth", "server auth"
    assert found == {
        "apiserver": ("ca", "kube-apiserver", (), (server,)),
        "apiserver-kubelet-client": ("ca", "kube-apiserver-kubelet-client", (), (client,)),
        "front-proxy-client": ("front-proxy-ca", "front-proxy-client", (), (client,)),
        "etcd/server": ("etcd/ca", "first", (), (server, client)),
        "etcd/peer": ("etcd/ca", "first", (), (server, client)),
        "etcd/healthcheck-client": ("etcd/ca", "kube-etcd-healthcheck-client", (), (client,)),
        "apiserver-etcd-client": ("etcd/ca", "kube-apiserver-etcd-client", (), (client,)),
    }
    assert [each.base_name for each in control_plane.catalog(NAMES, etcd=False)] == list(found)[:3]


def test_members_of_etcd_are_reached_here_too() -> None:
    found = {each.base_name: each.spec.alt_names for each in control_plane.catalog(NAMES)}
    for name, extra in (("etcd/server", "etcd.example"), ("etcd/peer", "peer.example")):
        assert found[name] == SubjectAltNames(
            dns_names=("first", "localhost", extra), ip_addresses=addresses("192.0.2.1", *HERE)
        )


def test_only_the_one_in_super_admin_conf_may_do_anything_for_ever() -> None:
    users = {
        spec.common_name: spec.organizations
        for spec in (
            control_plane.ADMIN, control_plane.SUPER_ADMIN, control_plane.CONTROLLER_MANAGER, control_plane.SCHEDULER,
            control_plane.kubelet("first"),
        )
    }  # fmt: skip
    assert users == {
        "kubernetes-admin": ("kubeadm:cluster-admins",),
        "kubernetes-super-admin": ("system:masters",),
        "system:kube-controller-manager": (),
        "system:kube-scheduler": (),
        "system:node:first": ("system:nodes",),
    }
