"""phases/certificates/ca_rotation_files.py on a control plane as kubeadm lays it out."""

from __future__ import annotations

import datetime as dt
import stat
from pathlib import Path

import pytest

from control_plane_world import NOW, control_plane_files
from kubevouch.agent import trust_bundle
from kubevouch.phases.certificates import ca_rotation_files as files
from kubevouch.phases.certificates import certs_renewal
from kubevouch.phases.certificates import control_plane_files as credentials
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.client_certificate import TrustAnchors, is_issued_by, verify_chain
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import CLIENT_AUTH, EXTENDED_KEY_USAGES, SERVER_AUTH

LATER = NOW + dt.timedelta(minutes=10)


def _contents(layout: Layout) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in layout.kubeconfigs.rglob("*") if path.is_file()}


def test_preparing_changes_nothing_of_others_and_can_be_repeated(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    before = _contents(layout)
    former, following = files.prepare(layout, now=LATER)
    after = _contents(layout)
    assert {path: after[path] for path in before} == before
    assert files.prepare(layout, now=LATER + dt.timedelta(days=1)) == (former, following)
    assert _contents(layout) == after
    folder = files.folder_of(layout)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}
    # The kind of key stays, the name does not.
    assert following.public_key.name == former.public_key.name
    assert following.subject.common_name == f"kubernetes-{LATER:%Y%m%d}"


def test_the_two_lead_to_each_other(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    former, following = files.prepare(layout, now=LATER)
    files.publish(layout, (former, following), linked=True)
    names = files.switch(layout, files.NEXT, now=LATER)
    assert set(names) == {each.name for each in credentials.listed(layout) if each.signed_by == "ca"}
    for each, usage in (
        ("apiserver", SERVER_AUTH),
        ("apiserver-kubelet-client", CLIENT_AUTH),
        ("admin.conf", CLIENT_AUTH),
    ):
        shown = credentials.read_chain(credentials.credential(each), layout)
        assert shown is not None
        leaf, *chain = shown
        assert is_issued_by(leaf, following)
        for anchor in (former, following):
            verify_chain(leaf, chain, TrustAnchors([anchor]), now=LATER, usage=EXTENDED_KEY_USAGES[usage])
    # Nothing is left to be done, and a renewal in the meantime keeps the link.
    assert files.switch(layout, files.NEXT, now=LATER) == []
    certs_renewal.renew(credentials.credential("apiserver"), layout, now=LATER)
    assert len(credentials.read_chain(credentials.credential("apiserver"), layout) or ()) == 2
    assert files.underway(layout) == (former, following, True)


def test_every_kubeconfig_that_is_the_clusters_trusts_both(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    other = create_authority("other", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW).certificate
    foreign = (tmp_path / "admin.conf").read_text()
    (tmp_path / "foreign.conf").write_text(foreign)
    trust_bundle.store(tmp_path / "foreign.conf", (other,))
    (tmp_path / "notes.conf").write_text("no kubeconfig: [")
    before = (tmp_path / "foreign.conf").read_bytes()
    both = files.prepare(layout, now=LATER)
    files.publish(layout, both, linked=True)
    for name in ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf", "kubelet.conf"):
        assert trust_bundle.load(tmp_path / name) == both
    assert (tmp_path / "foreign.conf").read_bytes() == before
    files.publish(layout, both[:1], linked=False)
    assert trust_bundle.load(tmp_path / "admin.conf") == both[:1]


def test_a_controller_manager_that_would_stop_signing_is_told_of_first(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    manifest = tmp_path / files.CONTROLLER_MANAGER
    manifest.parent.mkdir()
    own = layout.pki / "ca.crt"
    manifest.write_text(f"    - --cluster-signing-cert-file={own}\n    - --root-ca-file={own}\n")
    with pytest.raises(CertsError, match="kube-controller-manager then signs nothing") as refusal:
        files.verify_controller_manager(layout)
    assert f"#--cluster-signing-cert-file={layout.pki}/ca-signing.crt#" in refusal.value.hint
    manifest.write_text(manifest.read_text().replace(f"cert-file={own}", f"cert-file={layout.pki / files.SIGNING}"))
    files.verify_controller_manager(layout)
    # What it signs with is one certificate at any time, that of the key.
    both = files.prepare(layout, now=LATER)
    for step in (
        lambda: files.publish(layout, both, linked=True),
        lambda: files.switch(layout, files.NEXT, now=LATER),
        lambda: files.publish(layout, both[1:], linked=True),
    ):
        step()
        (alone,) = x509_certificate.parse_bundle((layout.pki / files.SIGNING).read_bytes())
        key = keys.load_pem((layout.pki / "ca.key").read_bytes())
        assert alone.public_key.canonical_info == keys.public_key_of(key).canonical_info
    assert len(files.restarts(layout)) == 3


def test_a_ca_that_signs_elsewhere_is_not_rotated_here(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    (layout.pki / "ca.key").unlink()
    with pytest.raises(CertsError, match="this CA signs elsewhere"):
        files.prepare(layout, now=LATER)
    assert not files.folder_of(layout).exists()
    assert files.restarts(layout) == []


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("kubernetes", "kubernetes-20310301"),
        ("kubernetes-20300101", "kubernetes-20310301"),
        ("kubernetes-20310301", "kubernetes-20310301-120000"),
        ("kubernetes-20310301-110000", "kubernetes-20310301"),
        ("", "kubernetes-20310301"),
    ],
)
def test_the_next_name_is_another_one(former: str, name: str) -> None:
    assert files.next_name(former, dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)) == name
