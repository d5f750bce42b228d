from __future__ import annotations

import pytest

from kubevouch.config.kubeadm_v1beta4 import (
    APIEndpoint,
    ClusterConfiguration,
    Etcd,
    ExternalEtcd,
    InitConfiguration,
    LocalEtcd,
    Networking,
    NodeRegistration,
)
from kubevouch.phases.cluster_settings import ClusterSettings, SettingsError, complete


def _complete(cluster: ClusterConfiguration | None = None, init: InitConfiguration | None = None) -> ClusterSettings:
    return complete(
        cluster or ClusterConfiguration(),
        init or InitConfiguration(),
        host_name="Host-1",
        address="192.0.2.2",
        version="v1.36.2",
    )


def test_defaults_are_kubeadms() -> None:
    settings = _complete()
    assert settings.node_name == "host-1"
    assert settings.local.url == settings.shared.url == "https://192.0.2.2:6443"
    cluster = settings.cluster
    assert (cluster.cluster_name, cluster.kubernetes_version) == ("kubernetes", "v1.36.2")
    assert (cluster.certificate_validity_period, cluster.ca_certificate_validity_period) == ("8760h0m0s", "87600h0m0s")
    assert (cluster.networking.service_subnet, settings.dns_address) == ("10.96.0.0/12", "10.96.0.10")
    assert settings.local_etcd == LocalEtcd(data_dir="/var/lib/etcd")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("api.example", "https://api.example:7443"),
        ("api.example:8443", "https://api.example:8443"),
        ("[fd00::1]:8443", "https://[fd00::1]:8443"),
        ("fd00::1", "https://[fd00::1]:7443"),
        ("[fd00::1]", "https://[fd00::1]:7443"),
    ],
)
def test_the_shared_endpoint(text: str, url: str) -> None:
    init = InitConfiguration(local_api_endpoint=APIEndpoint(bind_port=7443))
    assert _complete(ClusterConfiguration(control_plane_endpoint=text), init).shared.url == url


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (ClusterConfiguration(kubernetes_version="stable-1"), "got the Kubernetes version"),
        (ClusterConfiguration(control_plane_endpoint="https://x:1"), "got the controlPlaneEndpoint"),
        (ClusterConfiguration(networking=Networking(service_subnet="10.96.0.1/12")), "got the service subnet"),
        (ClusterConfiguration(networking=Networking(service_subnet="10.96.0.0/30")), "got the service subnet"),
        (ClusterConfiguration(networking=Networking(dns_domain="A_B")), "got the DNS domain"),
        (ClusterConfiguration(encryption_algorithm="ED25519"), "unknown key algorithm"),
        (ClusterConfiguration(certificate_validity_period="0s"), "got the certificateValidityPeriod"),
        (ClusterConfiguration(ca_certificate_validity_period="a year"), "got the caCertificateValidityPeriod"),
        (ClusterConfiguration(certificates_dir="pki"), "expected an absolute path"),
        (ClusterConfiguration(etcd=Etcd(local=LocalEtcd(), external=ExternalEtcd())), "mutually exclusive"),
    ],
)
def test_a_cluster_that_cannot_be_meant(cluster: ClusterConfiguration, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        _complete(cluster)


@pytest.mark.parametrize(
    ("init", "why"),
    [
        (InitConfiguration(node_registration=NodeRegistration(name="a_b")), "the node name"),
        (InitConfiguration(local_api_endpoint=APIEndpoint(advertise_address="host")), "expected an IP address"),
        (InitConfiguration(local_api_endpoint=APIEndpoint(bind_port=70000)), "got the bind port"),
    ],
)
def test_a_machine_that_cannot_be_meant(init: InitConfiguration, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        _complete(init=init)
