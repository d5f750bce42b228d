from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from control_plane_world import NOW, control_plane_files
from kubevouch.config import kubeconfig
from kubevouch.phases.certificates import control_plane_files as files
from kubevouch.phases.certificates.certs import CertsError, load_authority
from kubevouch.phases.certificates.certs_renewal import Outcome, renew
from kubevouch.phases.certificates.control_plane_files import CREDENTIALS, Credential, Layout
from kubevouch.pki import keys
from kubevouch.pki.authority import load_key_pair
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate

LATER = NOW + dt.timedelta(days=30)


def _leaf(credential: Credential, layout: Layout) -> Certificate:
    chain = files.read_chain(credential, layout)
    assert chain is not None
    return chain[0]


@pytest.mark.parametrize("credential", CREDENTIALS, ids=[each.name for each in CREDENTIALS])
def test_names_purposes_and_kind_of_key_stay(tmp_path: Path, credential: Credential) -> None:
    layout = control_plane_files(tmp_path)
    before = _leaf(credential, layout)
    assert renew(credential, layout, now=LATER) is Outcome.RENEWED
    after = _leaf(credential, layout)
    assert after.subject_name == before.subject_name
    assert after.meaning.alt_names == before.meaning.alt_names
    assert after.meaning.extended_key_usages == before.meaning.extended_key_usages
    assert after.public_key.name == before.public_key.name
    assert after.public_key.info != before.public_key.info
    assert after.not_after - before.not_after == dt.timedelta(days=30)
    path = credential.path(layout)
    if credential.in_kubeconfig:
        _, user = files.current_user(kubeconfig.load(path.read_bytes()))
        load_key_pair(user.client_certificate_data, user.client_key_data)
    else:
        load_key_pair(path.read_bytes(), path.with_suffix(".key").read_bytes())


def test_authorities_and_the_rest_of_a_kubeconfig_stay(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    ca = (layout.pki / "ca.crt").read_bytes()
    before = kubeconfig.load((tmp_path / "admin.conf").read_bytes())
    renew(files.credential("admin.conf"), layout, now=LATER)
    after = kubeconfig.load((tmp_path / "admin.conf").read_bytes())
    assert (after.clusters, after.contexts, after.current_context) == (
        before.clusters, before.contexts, before.current_context,
    )  # fmt: skip
    assert (layout.pki / "ca.crt").read_bytes() == ca


def test_an_rsa_key_stays_an_rsa_key_and_another_kind_can_be_had(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    admin = files.credential("admin.conf")
    renew(admin, layout, now=NOW, algorithm=KeyAlgorithm.RSA_2048)
    assert _leaf(admin, layout).public_key.name == "RSA-2048"
    renew(admin, layout, now=NOW)
    assert _leaf(admin, layout).public_key.name == "RSA-2048"


def test_missing_and_external(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    (layout.pki / "ca.key").unlink()
    assert renew(files.credential("apiserver"), layout, now=NOW) is Outcome.EXTERNAL
    assert renew(files.credential("front-proxy-client"), layout, now=NOW) is Outcome.RENEWED
    (layout.pki / "apiserver.crt").unlink()
    assert renew(files.credential("apiserver"), layout, now=NOW) is Outcome.MISSING


def test_a_run_that_was_cut_short_is_run_again(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    (layout.pki / "apiserver.key").write_bytes(keys.to_pem(keys.generate(KeyAlgorithm.ECDSA_P256)))
    assert renew(files.credential("apiserver"), layout, now=NOW) is Outcome.RENEWED
    pair = layout.authority("apiserver")
    load_key_pair(pair.certificate.read_bytes(), pair.key.read_bytes())


def test_what_cannot_be_renewed(tmp_path: Path) -> None:
    layout = control_plane_files(tmp_path)
    authority = load_authority(layout.authority("ca"))
    with pytest.raises(CertsError, match="the authority has ended"):
        renew(files.credential("apiserver"), layout, now=authority.certificate.not_after)
    (layout.pki / "apiserver.crt").write_text("no certificate")
    with pytest.raises(CertsError, match=r"apiserver\.crt cannot be used"):
        renew(files.credential("apiserver"), layout, now=NOW)
    with pytest.raises(CertsError, match="there is no certificate etcd"):
        files.credential("etcd")
