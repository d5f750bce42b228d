"""signers/keys.py: what opens encrypted keys, and what is said when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from controller_world import fixture
from kubevouch.pki import keys
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.signers.file import FileSigner
from kubevouch.signers.keys import KeyOptions
from kubevouch.testing.logs import capture_logs

SECRET = b"correct horse"


def write(folder: Path, name: str = "ca-ec", secret: bytes = SECRET, form: PrivateFormat = PrivateFormat.PKCS8) -> None:
    key = keys.load_pem(fixture(f"{name}.key"))
    (folder / "ca.crt").write_bytes(fixture(f"{name}.crt"))
    (folder / "ca.key").write_bytes(key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(secret)))
    (folder / "ca.key").chmod(0o600)


def signer(folder: Path, options: KeyOptions) -> FileSigner:
    return FileSigner(folder / "ca.crt", folder / "ca.key", keys=options)


def kind(signer: FileSigner) -> str:
    return signer.authority.certificate.public_key.kind


@pytest.mark.parametrize("secret", [SECRET, b"\x00\xff\n\x80" * 16])
def test_a_passphrase_or_a_file_of_random_bytes_opens_a_key(tmp_path: Path, secret: bytes) -> None:
    write(tmp_path, secret=secret)
    file = tmp_path / "secret"
    file.write_bytes(secret + b"\n")
    file.chmod(0o600)
    assert signer(tmp_path, KeyOptions(str(file))).authority.certificate.public_key.kind is KeyKind.ECDSA


def test_a_credential_of_systemd_opens_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(AuthorityError, match="is encrypted and no passphrase is known, expected"):
        signer(tmp_path, KeyOptions())
    (tmp_path / "ca-key-passphrase").write_bytes(SECRET)
    assert signer(tmp_path, KeyOptions()).authority


def test_a_wrong_passphrase_is_told_and_not_shown(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "secret").write_bytes(b"wrong horse")
    with pytest.raises(AuthorityError) as refusal:
        signer(tmp_path, KeyOptions(str(tmp_path / "secret")))
    assert str(refusal.value) == (
        f'error reading CA cert file "{tmp_path}/ca.crt": the key in "{tmp_path}/ca.key" cannot be used: the '
        f"passphrase does not open the private key (from {tmp_path}/secret)"
    )
    (tmp_path / "secret").write_bytes(b"\n")
    with pytest.raises(AuthorityError, match="secret is empty, expected a secret"):
        signer(tmp_path, KeyOptions(str(tmp_path / "secret")))


def test_the_old_form_of_encryption_is_refused(tmp_path: Path) -> None:
    write(tmp_path, form=PrivateFormat.TraditionalOpenSSL)
    (tmp_path / "secret").write_bytes(SECRET)
    with pytest.raises(AuthorityError, match="openssl pkcs8 -topk8 converts it"):
        signer(tmp_path, KeyOptions(str(tmp_path / "secret")))


def test_another_key_with_another_passphrase_is_taken_over_once_both_are_there(tmp_path: Path) -> None:
    write(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    found = signer(tmp_path, KeyOptions(str(secret)))
    write(tmp_path, "ca-rsa", b"0ther h0rse")
    with capture_logs() as logs:
        assert kind(found) == "ECDSA"
    assert [line["event"] for line in logs] == ["the signing pair is not taken over"]
    assert "0ther" not in str(logs)
    secret.write_bytes(b"0ther h0rse")
    assert kind(found) == "RSA"
