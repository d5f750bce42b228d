"""Kubeconfig files: what is written, what is kept and what is made anew."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kubevouch.config import kubeconfig as files
from kubevouch.config.kubeconfig import Kubeconfig, User
from kubevouch.phases import kubeconfig
from kubevouch.phases.certificates.certs import certificate_pem
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, LeafSpec, create_authority
from kubevouch.pki.control_plane import ADMIN, SUPER_ADMIN
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.usages import CLIENT_AUTH, SERVER_AUTH

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SERVER = "https://192.0.2.10:6443"
ALGORITHM = KeyAlgorithm.ECDSA_P256


def authority() -> CertificateAuthority:
    return create_authority("kubernetes", keys.generate(ALGORITHM), now=NOW)


CA = authority()


def ensure(path: Path, spec: LeafSpec = ADMIN, *, server: str = SERVER, now: dt.datetime = NOW) -> str:
    kubeconfig.ensure(path, server, CA, spec, now=now, algorithm=ALGORITHM)
    return path.read_text()


def text(spec: LeafSpec = ADMIN, *, signed_by: CertificateAuthority = CA) -> str:
    return kubeconfig.client_kubeconfig(SERVER, signed_by, spec, now=NOW, algorithm=ALGORITHM)


def with_user(original: str, **changes: bytes) -> str:
    config = files.load(original)
    users = {name: msgspec.structs.replace(user, **changes) for name, user in config.users.items()}
    return files.dump(msgspec.structs.replace(config, users=users))


def only_user(config: Kubeconfig) -> User:
    [user] = config.users.values()
    return user


def test_it_is_written_as_kubeadm_writes_it() -> None:
    config = files.load(text())
    assert config.current_context == "kubernetes-admin@kubernetes"
    assert config.clusters["kubernetes"].server == SERVER
    assert config.clusters["kubernetes"].certificate_authority_data == certificate_pem(CA.certificate.contents)
    context = config.contexts["kubernetes-admin@kubernetes"]
    assert (context.cluster, context.user) == ("kubernetes", "kubernetes-admin")
    [leaf] = x509_certificate.parse_bundle(only_user(config).client_certificate_data)
    assert (leaf.subject.common_name, leaf.subject.organizations) == ("kubernetes-admin", ("kubeadm:cluster-admins",))


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "admin.conf"
    ensure(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("days", [0, 1, 243])
def test_one_that_fits_is_kept_until_its_last_third(tmp_path: Path, days: int) -> None:
    path = tmp_path / "admin.conf"
    before = ensure(path)
    assert ensure(path, now=NOW + dt.timedelta(days=days)) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: text(SUPER_ADMIN),
        lambda: text(msgspec.structs.replace(ADMIN, organizations=())),
        lambda: text(msgspec.structs.replace(ADMIN, organizations=(*ADMIN.organizations, "system:masters"))),
        lambda: text(msgspec.structs.replace(ADMIN, purposes=(SERVER_AUTH,))),
        lambda: text(signed_by=authority()),
        lambda: with_user(text(), client_key_data=keys.to_pem(keys.generate(ALGORITHM))),
        lambda: with_user(text(), client_key_data=b""),
        lambda: with_user(text(), client_key_data=b"no key"),
        lambda: with_user(text(), client_certificate_data=b""),
        lambda: with_user(text(), client_certificate_data=certificate_pem(CA.certificate.contents)),
        lambda: text().replace("current-context: kubernetes-admin", "current-context: someone"),
        lambda: text().replace(SERVER, "https://192.0.2.11:6443"),
        lambda: "kind: Config\nusers: 1\n",
        lambda: "",
    ],
    ids=[
        "of another user", "without its groups", "with more groups", "for servers", "of another authority",
        "with another key", "without a key", "with a bad key", "without a certificate", "with another certificate",
        "without that context", "of another server", "not a kubeconfig", "empty",
    ],
)  # fmt: skip
def test_one_that_does_not_fit_is_replaced(tmp_path: Path, make: Callable[[], str]) -> None:
    path = tmp_path / "admin.conf"
    path.write_text(make())
    user = only_user(files.load(ensure(path)))
    [leaf] = x509_certificate.parse_bundle(user.client_certificate_data)
    assert leaf.subject.common_name == ADMIN.common_name
    assert leaf.subject.organizations == ADMIN.organizations
    key = keys.public_key_of(keys.load_pem(user.client_key_data))
    assert leaf.public_key.canonical_info == key.canonical_info
    assert files.load(path.read_bytes()).clusters["kubernetes"].server == SERVER


@pytest.mark.parametrize("days", [244, 366])
def test_one_in_its_last_third_is_replaced(tmp_path: Path, days: int) -> None:
    path = tmp_path / "admin.conf"
    before = ensure(path)
    assert ensure(path, now=NOW + dt.timedelta(days=days)) != before


def test_the_order_of_groups_does_not_matter(tmp_path: Path) -> None:
    spec = LeafSpec(common_name="jane", organizations=("a", "b"), purposes=(CLIENT_AUTH,))
    before = ensure(tmp_path / "jane.conf", spec)
    assert ensure(tmp_path / "jane.conf", msgspec.structs.replace(spec, organizations=("b", "a"))) == before
