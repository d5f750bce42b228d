"""signers/authorities.py: which CA an object may name, and what stands above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from controller_world import NOW, fixture
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import authority, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import x509_request
from kubevouch.signers.authorities import MAX_BYTES, AuthorityMissingError, NamedAuthorities, of_secret
from kubevouch.signers.held import HeldSigner
from kubevouch.signers.interface import Approval, Requester, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.signers.key_threads import KeyThreads
from kubevouch.signers.keys import KeyOptions
from kubevouch.testing.clock import FakeClock
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from signer_world import new_ca, secret
from softhsm import PIN, SoftHSM

CA, OTHER = new_ca("a"), new_ca("b")


def named(folder: Path | None) -> NamedAuthorities:
    return NamedAuthorities(folder, KeyOptions(), FakeClock(NOW))


def write(folder: Path, name: str = "a", ca: CertificateAuthority = CA) -> None:
    (folder / f"{name}.crt").write_bytes(b"of a\n" + ca.certificate.pem())
    (folder / f"{name}.key").touch(mode=0o600)
    (folder / f"{name}.key").write_bytes(keys.to_pem(ca.key))


def test_a_ca_of_the_directory(tmp_path: Path) -> None:
    write(tmp_path)
    source = named(tmp_path).find("a")
    assert source.authority.certificate == CA.certificate and source.former is None and not source.in_token


@pytest.mark.parametrize("name", ["../a", "a/../a", "/etc/a", "", ".a", "a\n", "A", "a\0"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write(tmp_path)
    write(inner)
    with pytest.raises(AuthorityError, match="is no name of a CA"):
        named(inner).find(name)


def test_what_is_missing_is_told_apart_from_what_is_broken(tmp_path: Path) -> None:
    for folder in (None, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AuthorityMissingError):
            named(folder).find("a")
    write(tmp_path)
    (tmp_path / "a.crt").write_bytes(OTHER.certificate.pem())
    with pytest.raises(AuthorityError, match="private key does not match") as told:
        named(tmp_path).find("a")
    assert not isinstance(told.value, AuthorityMissingError)
    (tmp_path / "a.crt").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(AuthorityError, match="bytes of certificates"):
        named(tmp_path).find("a")


def test_a_key_that_others_can_read_does_not_sign(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "a.key").chmod(0o644)
    with pytest.raises(AuthorityError, match="got the mode 0644"):
        named(tmp_path).find("a")


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "/etc/passwd", ""])
def test_a_uri_file_names_a_token_and_nothing_else(tmp_path: Path, uri: str) -> None:
    write(tmp_path)
    (tmp_path / "a.uri").write_text(uri)
    with pytest.raises(AuthorityError, match="expected a pkcs11: URI"):
        named(tmp_path).find("a")


def test_the_certificate_of_the_key_signs_whatever_stands_first() -> None:
    mixed = secret(CA, values={"tls.crt": OTHER.certificate.pem() + b"text\n" + CA.certificate.pem()})
    assert of_secret(mixed).authority.certificate == CA.certificate


def test_a_former_pair_is_one_only_when_it_is_whole() -> None:
    certificate = {"former.crt": OTHER.certificate.pem()}
    assert of_secret(secret(CA, values=certificate)).former is None
    whole = of_secret(secret(CA, values={**certificate, "former.key": keys.to_pem(OTHER.key)}))
    assert whole.former is not None and whole.former.certificate == OTHER.certificate
    with pytest.raises(AuthorityError, match=r"former\.crt: .*private key does not match"):
        of_secret(secret(CA, values={**certificate, "former.key": keys.to_pem(CA.key)}))


def test_anchors_are_the_roots_above_and_without_one_the_ca_itself() -> None:
    own = new_ca("issuing")
    signed = [authority.cross_sign(each, own.certificate, now=NOW) for each in (CA, OTHER)]
    ca = CertificateAuthority(signed[0], own.key)
    both = of_secret(secret(ca, CA.certificate, OTHER.certificate))
    assert both.anchors_of(signed[0]) == (CA.certificate,) and both.anchors_of(CA.certificate) == (CA.certificate,)
    alone = of_secret(secret(ca))
    assert alone.anchors_of(signed[0]) == (signed[0],)


@async_test
async def test_a_ca_of_the_directory_whose_key_is_in_a_token(softhsm: SoftHSM, tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.touch(mode=0o600)
    pin.write_text(PIN)
    (tmp_path / "web.crt").write_bytes(b"in a token\n" + softhsm.authorities["p256"].certificate.pem())
    (tmp_path / "web.uri").write_text(softhsm.uri("p256", pin) + "\n")
    source = named(tmp_path).find("web")
    assert source.in_token and source.authority.certificate == softhsm.authorities["p256"].certificate
    signer = HeldSigner(source.authority, SigningRules(), source.pool, KeyThreads(1, FakeClock(NOW)))
    wanted = Wanted(
        "c",
        "u",
        KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
        x509_request.parse_pem(fixture("client-good.csr")),
        ["digital signature", "client auth"],
    )
    made = await issue(signer, Requester("u"), Approval("r", "m"), wanted, now=NOW, ledger=MemoryLedger())
    assert made.issuer.common_name == "p256"
