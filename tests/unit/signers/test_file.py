"""signers/file.py: which pair signs while its files change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW, fixture
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import issuance
from kubevouch.pki.errors import AuthorityError, IssuedMismatchError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import x509_certificate, x509_request
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Requester, SigningStopped, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.testing.logs import capture_logs
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

WANTED = Wanted(
    "c",
    "u",
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    x509_request.parse_pem(fixture("client-good.csr")),
    ["digital signature", "client auth"],
)


def write(folder: Path, certificate: str, key: str) -> tuple[Path, Path]:
    files = folder / "ca.crt", folder / "ca.key"
    files[0].write_bytes(fixture(certificate))
    files[1].write_bytes(fixture(key))
    return files


def test_a_new_pair_is_taken_over_once_it_fits(tmp_path: Path) -> None:
    signer = FileSigner(*write(tmp_path, "ca-ec.crt", "ca-ec.key"))
    before = signer.authority.certificate.contents
    write(tmp_path, "ca-rsa.crt", "ca-ec.key")
    with capture_logs() as logs:
        assert signer.authority.certificate.contents == before
    assert [line["event"] for line in logs] == ["the signing pair is not taken over"]
    write(tmp_path, "ca-rsa.crt", "ca-rsa.key")
    assert signer.authority.certificate.public_key.kind is KeyKind.RSA


@pytest.mark.parametrize("certificate", ["ca-empty.crt", "ca-garbage.crt"])
def test_a_file_without_a_certificate_is_not_taken_over(tmp_path: Path, certificate: str) -> None:
    signer = FileSigner(*write(tmp_path, "ca-ec.crt", "ca-ec.key"))
    before = signer.authority.certificate.contents
    write(tmp_path, certificate, "ca-ec.key")
    assert signer.authority.certificate.contents == before


def test_a_missing_file_is_not_taken_over(tmp_path: Path) -> None:
    certificate, key = write(tmp_path, "ca-ec.crt", "ca-ec.key")
    signer = FileSigner(certificate, key)
    key.unlink()
    assert signer.authority.certificate.contents


def test_of_a_bundle_the_one_that_belongs_to_the_key_signs_when_that_is_wanted(tmp_path: Path) -> None:
    certificate, key = write(tmp_path, "ca-ec.crt", "ca-ec.key")
    certificate.write_bytes(fixture("ca-rsa.crt") + fixture("ca-ec.crt"))
    with pytest.raises(AuthorityError, match="expected 0600"):
        FileSigner(certificate, key, bundle=True)
    key.chmod(0o600)
    signer = FileSigner(certificate, key, bundle=True)
    assert signer.authority.certificate.pem() == x509_certificate.parse_pem(fixture("ca-ec.crt")).pem()
    # One rename moves signing to the other.
    key.write_bytes(fixture("ca-rsa.key"))
    assert signer.authority.certificate.public_key.kind is KeyKind.RSA
    # A key that none of them has is not taken over.
    certificate.write_bytes(fixture("ca-ec.crt"))
    assert signer.authority.certificate.public_key.kind is KeyKind.RSA


def test_a_bundle_fails_every_signature_until_it_is_gone(tmp_path: Path) -> None:
    signer = FileSigner(*write(tmp_path, "ca-ec.crt", "ca-ec.key"))
    write(tmp_path, "ca-bundle2.crt", "ca-bundle2.key")
    for _ in range(2):
        with pytest.raises(AuthorityError, match="expected 1 certificate, found 2"):
            assert signer.authority
    write(tmp_path, "ca-ec.crt", "ca-ec.key")
    assert signer.authority.certificate.contents


def test_a_signer_does_not_start_without_its_files(tmp_path: Path) -> None:
    with pytest.raises(AuthorityError) as refusal:
        FileSigner(tmp_path / "no.crt", tmp_path / "no.key")
    assert str(refusal.value) == (
        f'error reading CA cert file "{tmp_path}/no.crt": open {tmp_path}/no.crt: no such file or directory'
    )


@async_test
async def test_what_is_signed_follows_files_request_and_rules(tmp_path: Path) -> None:
    rules = SigningRules(signing_duration=dt.timedelta(hours=2))
    signer = FileSigner(*write(tmp_path, "ca-ec.crt", "ca-ec.key"), rules)

    async def signed(expiration_seconds: int | None) -> Certificate:
        wanted = msgspec.structs.replace(WANTED, expiration_seconds=expiration_seconds)
        return await issue(signer, Requester("u"), Approval("r", "m"), wanted, now=NOW, ledger=MemoryLedger())

    first = await signed(None)
    assert first.not_after - NOW <= dt.timedelta(hours=2)
    assert (await signed(3600)).not_after == first.not_after - dt.timedelta(hours=1)
    write(tmp_path, "ca-rsa.crt", "ca-rsa.key")
    assert (await signed(None)).signature_algorithm != first.signature_algorithm


@async_test
async def test_a_certificate_that_was_not_allowed_stops_the_signer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before the signature never fails with our own builder, so the test makes it."""
    signer = FileSigner(*write(tmp_path, "ca-ec.crt", "ca-ec.key"))

    def differs(*_: object, **__: object) -> None:
        raise IssuedMismatchError(("it is a CA",))

    with monkeypatch.context() as patch:
        patch.setattr(issuance, "verify_draft", differs)
        with pytest.raises(IssuedMismatchError):
            await issue(signer, Requester("u"), Approval("r", "m"), WANTED, now=NOW, ledger=MemoryLedger())
    with pytest.raises(SigningStopped, match="it is a CA"):
        await issue(signer, Requester("u"), Approval("r", "m"), WANTED, now=NOW, ledger=MemoryLedger())
