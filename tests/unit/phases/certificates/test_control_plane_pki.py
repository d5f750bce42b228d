"""File by file as kubeadm makes them; the expectations are those of its documentation, written out once more."""

from __future__ import annotations

import datetime as dt
import ipaddress
import stat
from pathlib import Path

import pytest

from control_plane_world import NOW, control_plane_files, settings
from kubevouch.config import kubeconfig
from kubevouch.config.kubeadm_v1beta4 import (
    APIServerComponent,
    ClusterConfiguration,
    Etcd,
    ExternalEtcd,
    LocalEtcd,
    Networking,
)
from kubevouch.phases.certificates import control_plane_pki
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.client_certificate import TrustAnchors, verify_chain
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import CLIENT_AUTH_OID, SERVER_AUTH_OID
from kubevouch.pki.x509.x509_certificate import Certificate

# Name, CN, purposes, signed by: facts of kubeadm 1.36. No organization anywhere.
LEAVES = (
    ("apiserver", "kube-apiserver", [SERVER_AUTH_OID], "ca"),
    ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", [CLIENT_AUTH_OID], "ca"),
    ("front-proxy-client", "front-proxy-client", [CLIENT_AUTH_OID], "front-proxy-ca"),
    ("etcd/server", "cp-1", [SERVER_AUTH_OID, CLIENT_AUTH_OID], "etcd/ca"),
    ("etcd/peer", "cp-1", [SERVER_AUTH_OID, CLIENT_AUTH_OID], "etcd/ca"),
    ("etcd/healthcheck-client", "kube-etcd-healthcheck-client", [CLIENT_AUTH_OID], "etcd/ca"),
    ("apiserver-etcd-client", "kube-apiserver-etcd-client", [CLIENT_AUTH_OID], "etcd/ca"),
)
AUTHORITIES = (("ca", "kubernetes"), ("front-proxy-ca", "front-proxy-ca"), ("etcd/ca", "etcd-ca"))
KUBECONFIGS = (
    ("admin.conf", "kubernetes-admin", ("kubeadm:cluster-admins",)),
    ("super-admin.conf", "kubernetes-super-admin", ("system:masters",)),
    ("kubelet.conf", "system:node:cp-1", ("system:nodes",)),
    ("controller-manager.conf", "system:kube-controller-manager", ()),
    ("scheduler.conf", "system:kube-scheduler", ()),
)


def _read(layout: Layout, base_name: str) -> Certificate:
    return x509_certificate.parse_pem((layout.pki / f"{base_name}.crt").read_bytes())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_holds_what_kubeadm_puts_there(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    names = [name for name, *_ in (*LEAVES, *AUTHORITIES)]
    wanted = {f"{name}.{kind}" for name in names for kind in ("crt", "key")} | {"sa.key", "sa.pub"}
    found = {str(path.relative_to(layout.pki)) for path in layout.pki.rglob("*") if path.is_file()}
    assert found == wanted
    modes = {name: _mode(layout.pki / name) for name in found}
    assert modes == {name: 0o644 if name.endswith(".crt") else 0o600 for name in found}


@pytest.mark.parametrize(("name", "common_name", "purposes", "signed_by"), LEAVES)
def test_leaves(tmp_path: Path, name: str, common_name: str, purposes: list[str], signed_by: str) -> None:
    layout = control_plane_files(tmp_path)
    leaf, ca = _read(layout, name), _read(layout, signed_by)
    assert leaf.subject.common_name == common_name and leaf.subject.organizations == ()
    assert sorted(leaf.meaning.extended_key_usages) == sorted(purposes)
    assert leaf.issuer_name == ca.subject_name
    assert leaf.not_before == (NOW - dt.timedelta(minutes=5)).replace(microsecond=0)
    assert leaf.not_after == (NOW + dt.timedelta(hours=8760)).replace(microsecond=0)
    if name.startswith("etcd/") and "client" not in name:
        assert set(leaf.meaning.alt_names.dns_names) == {"cp-1", "localhost"}
        assert {*map(str, leaf.meaning.alt_names.ip_addresses)} == {"127.0.0.1", "::1"}


@pytest.mark.parametrize(("name", "common_name"), AUTHORITIES)
def test_authorities(tmp_path: Path, name: str, common_name: str) -> None:
    ca = _read(control_plane_files(tmp_path), name)
    assert ca.subject.common_name == common_name and ca.meaning.is_ca
    assert ca.meaning.alt_names.dns_names == (common_name,)
    assert ca.not_after == (NOW + dt.timedelta(hours=87600)).replace(microsecond=0)


@pytest.mark.parametrize(("name", "user", "organizations"), KUBECONFIGS)
def test_kubeconfigs(tmp_path: Path, name: str, user: str, organizations: tuple[str, ...]) -> None:
    layout = control_plane_files(tmp_path)
    assert _mode(tmp_path / name) == 0o600
    config = kubeconfig.load((tmp_path / name).read_bytes())
    assert config.current_context == f"{user}@kubernetes"
    cluster = config.clusters["kubernetes"]
    assert cluster.server == "https://127.0.0.1:6443"
    assert cluster.certificate_authority_data == (layout.pki / "ca.crt").read_bytes()
    leaf = x509_certificate.parse_pem(config.users[user].client_certificate_data)
    assert (leaf.subject.common_name, leaf.subject.organizations) == (user, organizations)


def test_the_servers_names(tmp_path: Path) -> None:
    cluster = ClusterConfiguration(
        control_plane_endpoint="api.example:8443",
        networking=Networking(service_subnet="10.32.0.0/16,fd00::/108", dns_domain="blue.local"),
        api_server=APIServerComponent(cert_sans=["extra.example", "192.0.2.7"]),
        etcd=Etcd(local=LocalEtcd(server_cert_sans=["etcd.example"], peer_cert_sans=["peer.example"])),
    )
    wanted = settings(cluster)
    layout = Layout(tmp_path / "pki", tmp_path)
    control_plane_pki.ensure_certificates(wanted, layout, now=NOW)
    control_plane_pki.ensure_kubeconfigs(wanted, layout, now=NOW)
    names = _read(layout, "apiserver").meaning.alt_names
    assert set(names.dns_names) == {
        "cp-1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.blue.local",
        "api.example", "extra.example",
    }  # fmt: skip
    assert set(names.ip_addresses) == {*map(ipaddress.ip_address, ("10.32.0.1", "fd00::1", "127.0.0.1", "192.0.2.7"))}
    assert set(_read(layout, "etcd/server").meaning.alt_names.dns_names) == {"cp-1", "localhost", "etcd.example"}
    assert set(_read(layout, "etcd/peer").meaning.alt_names.dns_names) == {"cp-1", "localhost", "peer.example"}
    servers = {
        name: next(iter(kubeconfig.load((tmp_path / name).read_bytes()).clusters.values())).server
        for name, *_ in KUBECONFIGS
    }
    assert servers == {
        "admin.conf": "https://api.example:8443",
        "super-admin.conf": "https://api.example:8443",
        "kubelet.conf": "https://api.example:8443",
        "controller-manager.conf": "https://127.0.0.1:6443",
        "scheduler.conf": "https://127.0.0.1:6443",
    }


def test_external_etcd_has_no_certificates_here(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "pki", tmp_path)
    external = ExternalEtcd(endpoints=["https://etcd.example:2379"])
    control_plane_pki.ensure_certificates(settings(ClusterConfiguration(etcd=Etcd(external=external))), layout, now=NOW)
    assert not [path for path in layout.pki.rglob("*") if "etcd" in path.name]


def test_the_kind_of_keys_and_the_lifetimes_are_those_of_the_configuration(tmp_path: Path) -> None:
    cluster = ClusterConfiguration(
        encryption_algorithm="ECDSA-P384",
        certificate_validity_period="48h",
        ca_certificate_validity_period="96h",
        cluster_name="blue",
    )
    layout = Layout(tmp_path / "pki", tmp_path)
    control_plane_pki.ensure_certificates(settings(cluster), layout, now=NOW)
    control_plane_pki.ensure_kubeconfigs(settings(cluster), layout, now=NOW)
    leaf, ca = _read(layout, "apiserver"), _read(layout, "ca")
    assert leaf.public_key.name == ca.public_key.name == "ECDSA-P384"
    assert keys.algorithm_of(keys.load_pem((layout.pki / "sa.key").read_bytes())) == "ECDSA-P384"
    assert leaf.not_after - leaf.not_before == dt.timedelta(hours=48, minutes=5)
    assert ca.not_after - ca.not_before == dt.timedelta(hours=96, minutes=5)
    config = kubeconfig.load((tmp_path / "admin.conf").read_bytes())
    assert config.current_context == "kubernetes-admin@blue"
    assert x509_certificate.parse_pem(config.users["kubernetes-admin"].client_certificate_data).public_key.bits == 384


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert control_plane_pki.ensure_certificates(settings(), layout, now=NOW) == []
    assert control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW) == []
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("external", [False, True], ids=["its key is here", "it signs elsewhere"])
def test_a_front_proxy_that_is_the_client_authority(tmp_path: Path, external: bool) -> None:
    """Whoever it signs may claim to be anyone, and it signs every client."""
    layout = control_plane_files(tmp_path)
    for ending in ("crt", "key"):
        (layout.pki / f"front-proxy-ca.{ending}").write_bytes((layout.pki / f"ca.{ending}").read_bytes())
    if external:
        (layout.pki / "front-proxy-ca.key").unlink()
    (layout.pki / "apiserver.crt").unlink()
    with pytest.raises(CertsError, match=r"front-proxy-ca\.crt has the key of the client CA ca\.crt"):
        control_plane_pki.ensure_certificates(settings(), layout, now=NOW)
    assert not (layout.pki / "apiserver.crt").exists()


def test_an_authority_that_signs_elsewhere(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    (layout.pki / "ca.key").unlink()
    assert control_plane_pki.ensure_certificates(settings(), layout, now=NOW) == []
    assert control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW) == []
    (layout.pki / "apiserver.crt").unlink()
    (tmp_path / "admin.conf").unlink()
    with pytest.raises(CertsError, match=r"apiserver\.crt cannot be used, and .*ca\.key is not here to sign it") as err:
        control_plane_pki.ensure_certificates(settings(), layout, now=NOW)
    assert "certs generate-csr" in err.value.hint
    with pytest.raises(CertsError, match=r"admin\.conf has no certificate, and the authority signs elsewhere"):
        control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW)
    assert not (layout.pki / "ca.key").exists()


def test_a_kubelet_that_renews_by_itself_keeps_its_kubeconfig(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    text = (tmp_path / "kubelet.conf").read_bytes()
    config = kubeconfig.load(text)
    (name,) = config.users
    pointing = kubeconfig.User(client_certificate="/var/lib/kubelet/pki/kubelet-client-current.pem")
    changed = kubeconfig.dump(
        kubeconfig.Kubeconfig(
            clusters=config.clusters, contexts=config.contexts, users={name: pointing},
            current_context=config.current_context,
        )
    )  # fmt: skip
    (tmp_path / "kubelet.conf").write_text(changed)
    control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW)
    assert (tmp_path / "kubelet.conf").read_text() == changed


def test_a_ca_that_takes_over_is_in_every_kubeconfig(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    ca = layout.pki / "ca.crt"
    other = create_authority("kubernetes", keys.generate(keys.KeyAlgorithm.ECDSA_P256), now=NOW).certificate.pem()
    ca.write_bytes(other + ca.read_bytes())
    assert control_plane_pki.ensure_certificates(settings(), layout, now=NOW) == []
    control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW)
    for name, *_ in KUBECONFIGS:
        (cluster,) = kubeconfig.load((tmp_path / name).read_bytes()).clusters.values()
        assert cluster.certificate_authority_data == ca.read_bytes()
    # The key signs, wherever its certificate stands in the file.
    (layout.pki / "apiserver.crt").unlink()
    control_plane_pki.ensure_certificates(settings(), layout, now=NOW)
    found = x509_certificate.parse_bundle((layout.pki / "apiserver.crt").read_bytes())
    signer = x509_certificate.parse_bundle(ca.read_bytes())[1]
    anchors = TrustAnchors([signer])
    assert verify_chain(found[0], found[1:], anchors, now=NOW, usage=SERVER_AUTH_OID)
