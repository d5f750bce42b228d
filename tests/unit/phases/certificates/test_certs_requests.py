from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

import msgspec
import pytest

from control_plane_world import NOW, settings
from kubevouch.config import kubeconfig
from kubevouch.phases.certificates import certs_requests, control_plane_files, control_plane_pki
from kubevouch.phases.certificates.certs import CertsError, certificate_pem
from kubevouch.phases.certificates.control_plane_files import KUBELET_CONF, Credential, Layout, credential
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, create_authority, issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request

SERVER = "https://127.0.0.1:6443"
EVERY = [*control_plane_pki.pairs(settings()), *control_plane_pki.kubeconfigs()]
SPECS = control_plane_files.wanted_specs(settings().names)
ELSEWHERE = {
    base: create_authority(name, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    for base, name in (("ca", "kubernetes"), ("front-proxy-ca", "front-proxy-ca"), ("etcd/ca", "etcd-ca"))
}


def _layout(folder: Path) -> Layout:
    layout = Layout(folder / "pki", folder)
    for base, authority in ELSEWHERE.items():
        certs_requests.import_authority(base, certificate_pem(authority.certificate.contents), layout, now=NOW)
    return layout


def _ask(each: Credential, layout: Layout) -> Path:
    return certs_requests.generate(each, SPECS[each.name], layout, server=SERVER)


def _signed(
    each: Credential, layout: Layout, *, by: CertificateAuthority | None = None, spec: LeafSpec | None = None
) -> bytes:
    """What whoever holds the authority's key gives back."""
    text = certs_requests.key_path(each, layout).read_bytes()
    if each.in_kubeconfig:
        text = control_plane_files.current_user(kubeconfig.load(text))[1].client_key_data
    leaf = issue_leaf(by or ELSEWHERE[each.signed_by], spec or SPECS[each.name], keys.load_pem(text), now=NOW)
    return certificate_pem(leaf.contents)


@pytest.mark.parametrize("each", EVERY, ids=[each.name for each in EVERY])
def test_there_and_back(tmp_path: Path, each: Credential) -> None:
    layout = _layout(tmp_path)
    path = _ask(each, layout)
    assert path.name.endswith(".csr") and stat.S_IMODE(path.stat().st_mode) == 0o600
    request = x509_request.verify_signature(x509_request.parse_pem(path.read_bytes()))
    spec = SPECS[each.name]
    assert (request.subject.common_name, request.subject.organizations) == (spec.common_name, spec.organizations)
    assert request.alt_names == spec.alt_names
    assert certs_requests.waiting(layout) == [each]
    certs_requests.import_certificate(each, _signed(each, layout), layout, now=NOW)
    assert not path.exists() and not certs_requests.waiting(layout)
    chain = control_plane_files.read_chain(each, layout)
    assert chain is not None and chain[0].subject.common_name == spec.common_name


def test_a_whole_control_plane_without_the_authorities_keys(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    for each in EVERY:
        _ask(each, layout)
        certs_requests.import_certificate(each, _signed(each, layout), layout, now=NOW)
    control_plane_pki.ensure_certificates(settings(), layout, now=NOW)
    assert control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW) == []
    assert not list(layout.pki.rglob("*ca.key"))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    _ask(credential("apiserver"), layout)
    key = (layout.pki / "apiserver.key").read_bytes()
    with pytest.raises(CertsError, match=r"apiserver\.key exists"):
        _ask(credential("apiserver"), layout)
    assert (layout.pki / "apiserver.key").read_bytes() == key


APISERVER = credential("apiserver")
STRANGER = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)


def _refused(layout: Layout, text: bytes, each: Credential = APISERVER, *, now: dt.datetime = NOW) -> str:
    with pytest.raises(CertsError) as refusal:
        certs_requests.import_certificate(each, text, layout, now=now)
    assert certs_requests.request_path(each, layout).exists()
    if not each.in_kubeconfig:
        assert not each.path(layout).exists()
    return str(refusal.value)


def test_step_1_what_is_no_certificate_of_a_server(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    _ask(APISERVER, layout)
    assert "cannot be imported" in _refused(layout, b"nothing")
    assert "it is an authority's" in _refused(layout, certificate_pem(ELSEWHERE["ca"].certificate.contents))


def test_step_2_another_key(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    _ask(APISERVER, layout)
    leaf = issue_leaf(ELSEWHERE["ca"], SPECS["apiserver"], keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    assert "its key is not the one in" in _refused(layout, certificate_pem(leaf.contents))


def test_step_3_another_authority_time_or_purpose(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    _ask(APISERVER, layout)
    good = _signed(APISERVER, layout)
    assert "unknown authority" in _refused(layout, _signed(APISERVER, layout, by=STRANGER))
    assert "expired" in _refused(layout, good, now=NOW + dt.timedelta(days=366))
    wrong = msgspec.structs.replace(SPECS["apiserver"], purposes=("client auth",))
    assert "usage" in _refused(layout, _signed(APISERVER, layout, spec=wrong))
    (layout.pki / "ca.crt").unlink()
    assert "is not there to check it against" in _refused(layout, good)


def test_step_4_other_names_than_asked(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    _ask(APISERVER, layout)
    named = msgspec.structs.replace(SPECS["apiserver"], common_name="somebody")
    assert "got the subject CN=somebody" in _refused(layout, _signed(APISERVER, layout, spec=named))
    fewer = LeafSpec(common_name="kube-apiserver", purposes=("server auth",))
    assert "it lacks 10.96.0.1, 127.0.0.1, cp-1" in _refused(layout, _signed(APISERVER, layout, spec=fewer))
    _ask(KUBELET_CONF, layout)
    grouped = msgspec.structs.replace(SPECS["kubelet.conf"], organizations=("system:masters",))
    assert "O=system:masters, expected" in _refused(layout, _signed(KUBELET_CONF, layout, spec=grouped), KUBELET_CONF)


def test_authorities_are_never_exchanged(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    ca = (layout.pki / "ca.crt").read_bytes()
    with pytest.raises(CertsError, match="is another authority's"):
        certs_requests.import_authority("ca", certificate_pem(STRANGER.certificate.contents), layout, now=NOW)
    assert (layout.pki / "ca.crt").read_bytes() == ca
    fresh = Layout(tmp_path / "fresh/pki", tmp_path / "fresh")
    leaf = issue_leaf(STRANGER, SPECS["apiserver"], keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    for text, why in (
        (certificate_pem(leaf.contents), "it is no authority's"),
        (ca + certificate_pem(leaf.contents), "it is no authority's"),
        (b"", "cannot be imported"),
    ):
        with pytest.raises(CertsError, match=why):
            certs_requests.import_authority("ca", text, fresh, now=NOW)
    with pytest.raises(CertsError, match="it is not valid now"):
        certs_requests.import_authority("ca", ca, fresh, now=NOW - dt.timedelta(days=1))
    assert not fresh.pki.exists()


@pytest.mark.parametrize(("first", "second"), [("ca", "front-proxy-ca"), ("front-proxy-ca", "ca")])
def test_one_key_is_not_imported_for_clients_and_for_the_front_proxy(tmp_path: Path, first: str, second: str) -> None:
    layout = Layout(tmp_path / "pki", tmp_path)
    certs_requests.import_authority(first, ELSEWHERE["ca"].certificate.pem(), layout, now=NOW)
    again = create_authority("another name", ELSEWHERE["ca"].key, now=NOW).certificate.pem()
    with pytest.raises(CertsError, match="has the key of the client CA"):
        certs_requests.import_authority(second, STRANGER.certificate.pem() + again, layout, now=NOW)
    assert not layout.authority(second).certificate.exists()


def test_one_authority_takes_over_from_another(tmp_path: Path) -> None:
    layout = _layout(tmp_path)
    former, following = ELSEWHERE["ca"], STRANGER
    ca = layout.pki / "ca.crt"
    both = following.certificate.pem() + ca.read_bytes()
    certs_requests.import_authority("ca", both, layout, now=NOW)
    assert ca.read_bytes() == both
    for each in EVERY:
        _ask(each, layout)
        if each.in_kubeconfig:
            (cluster,) = kubeconfig.load(each.path(layout).read_bytes()).clusters.values()
            assert cluster.certificate_authority_data == both
    # Signed by one or the other, all of them do.
    for number, each in enumerate(EVERY):
        signed_by = (former, following)[number % 2] if each.signed_by == "ca" else None
        certs_requests.import_certificate(each, _signed(each, layout, by=signed_by), layout, now=NOW)
    assert control_plane_pki.ensure_certificates(settings(), layout, now=NOW) == [layout.pki / "sa.pub"]
    assert control_plane_pki.ensure_kubeconfigs(settings(), layout, now=NOW) == []
    assert not list(layout.pki.rglob("*ca.key"))
