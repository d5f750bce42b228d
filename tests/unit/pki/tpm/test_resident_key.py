from __future__ import annotations

import copy

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.tpm import algorithms, resident_key, templates
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.tpm.resident_key import ResidentKey
from kubevouch.pki.x509 import der, pem

_OTHER = ec.derive_private_key(4711, ec.SECP256R1())
_OWNER = 0x40000001


def _public(key: ec.EllipticCurvePrivateKey = _OTHER, template: Public = templates.NODE_KEY) -> Public:
    numbers = key.public_key().public_numbers()
    size = key.curve.key_size // 8
    return msgspec.structs.replace(template, unique=(numbers.x.to_bytes(size, "big"), numbers.y.to_bytes(size, "big")))


def _sign(key: ResidentKey, digest: bytes, algorithm: int) -> tuple[int, int]:
    """As the TPM would."""
    assert key.private == b"sealed"
    hash_algorithm = algorithms.HASHES[algorithm].algorithm
    return decode_dss_signature(_OTHER.sign(digest, ec.ECDSA(Prehashed(hash_algorithm))))


_KEY = ResidentKey(_OWNER, _public(), b"sealed", _sign)


@pytest.mark.parametrize("algorithm", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()])
def test_it_signs_where_it_is(algorithm: hashes.HashAlgorithm) -> None:
    _KEY.public_key().verify(_KEY.sign(b"this", ec.ECDSA(algorithm)), b"this", ec.ECDSA(algorithm))
    assert (_KEY.curve.name, _KEY.key_size) == ("secp256r1", 256)
    assert copy.copy(_KEY) is copy.deepcopy(_KEY) is _KEY


def test_what_it_cannot_sign_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    for algorithm in (hashes.SHA1(), Prehashed(hashes.SHA256())):
        with pytest.raises(KeyMaterialError, match="SHA-256, SHA-384 and SHA-512 only"):
            _KEY.sign(b"", ec.ECDSA(algorithm))
    with pytest.raises(KeyMaterialError, match="TPM"):
        ResidentKey(_OWNER, _public(), b"").sign(b"", ec.ECDSA(hashes.SHA256()))


def test_nothing_of_it_can_be_taken_out() -> None:
    for take in (
        _KEY.private_numbers,
        lambda: _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        lambda: _KEY.exchange(ec.ECDH(), _OTHER.public_key()),
    ):
        with pytest.raises(KeyMaterialError, match="cannot leave"):
            take()


def test_a_key_from_a_file_signs_once_the_tpm_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_key, "default_signer", None)
    read = keys.load_pem(keys.to_pem(_KEY), in_tpm=True)
    assert isinstance(read, ResidentKey)
    with pytest.raises(KeyMaterialError, match="nobody has said in which"):
        read.sign(b"", ec.ECDSA(hashes.SHA256()))
    resident_key.use(_sign)
    read.public_key().verify(read.sign(b"x", ec.ECDSA(hashes.SHA256())), b"x", ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize(
    ("public", "message"),
    [
        (
            _public(ec.derive_private_key(7, ec.SECP384R1()), msgspec.structs.replace(templates.NODE_KEY, curve=4)),
            "P-256",
        ),
        (_public(template=templates.ATTESTATION_KEY), "does not sign what one likes"),
        (_public(template=templates.STORAGE_ROOT_KEY), "does not sign what one likes"),
    ],
)
def test_keys_of_other_kinds_are_refused(public: Public, message: str) -> None:
    with pytest.raises(KeyMaterialError, match=message):
        ResidentKey(_OWNER, public, b"")


# ------------------------------------------------------------------ the file


def test_it_is_stored_and_read_again() -> None:
    text = keys.to_pem(_KEY)
    assert text.startswith(b"-----BEGIN TSS2 PRIVATE KEY-----")
    assert keys.is_in_tpm(_KEY)
    assert not keys.is_in_tpm(_OTHER)
    read = keys.load_pem(text, in_tpm=True)
    assert isinstance(read, ResidentKey)
    assert (read.parent, read.public, read.private) == (_KEY.parent, _KEY.public, _KEY.private)
    assert keys.algorithm_of(read) is keys.KeyAlgorithm.ECDSA_P256
    assert keys.to_pem(read) == text


def test_where_go_decides_it_is_no_key() -> None:
    with pytest.raises(KeyMaterialError, match="tls: failed to parse private key"):
        keys.load_pem(keys.to_pem(_KEY))


def _file(*elements: bytes) -> bytes:
    return pem.encode("TSS2 PRIVATE KEY", der.encode(der.SEQUENCE, *elements))


_TYPE = der.encode_object_identifier("2.23.133.10.1.3")
_NO_PASSWORD = bytes.fromhex("a0030101ff")
_PUBLIC = der.encode(der.OCTET_STRING, _public().encode())
_PRIVATE = der.encode(der.OCTET_STRING, b"\0\6sealed")
_PARENT = der.encode_integer(_OWNER)


@pytest.mark.parametrize("parent", [0x81000001, 0x4000000B, 0])
@pytest.mark.parametrize("no_password", [b"", _NO_PASSWORD, bytes.fromhex("a003010101")], ids=["none", "DER", "BER"])
def test_files_of_other_programs_are_read(parent: int, no_password: bytes) -> None:
    read = keys.load_pem(_file(_TYPE, no_password, der.encode_integer(parent), _PUBLIC, _PRIVATE), in_tpm=True)
    assert isinstance(read, ResidentKey)
    assert read.parent == (parent or _OWNER)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (_file(), "another kind"),
        (
            _file(der.encode_object_identifier("2.23.133.10.1.4"), _NO_PASSWORD, _PARENT, _PUBLIC, _PRIVATE),
            "another kind",
        ),
        (_file(_TYPE, bytes.fromhex("a003010100"), _PARENT, _PUBLIC, _PRIVATE), "password"),
        (_file(_TYPE, bytes.fromhex("a1023000"), _PARENT, _PUBLIC, _PRIVATE), "policy"),
        (_file(_TYPE, _NO_PASSWORD, bytes.fromhex("a1023000"), _PARENT, _PUBLIC, _PRIVATE), "policy"),
        (_file(_TYPE, _NO_PASSWORD, der.encode_integer(0x80000000), _PUBLIC, _PRIVATE), "below 0x80000000"),
        (_file(_TYPE, _NO_PASSWORD, der.encode_integer(-1), _PUBLIC, _PRIVATE), "below"),
        (_file(_TYPE, _NO_PASSWORD, _PARENT, _PUBLIC), "cannot be read"),
        (_file(_TYPE, _NO_PASSWORD, _PARENT, der.encode(der.OCTET_STRING, b""), _PRIVATE), "cannot be read"),
        (_file(_TYPE, _NO_PASSWORD, _PARENT, _PUBLIC, der.encode(der.OCTET_STRING, b"\0\7sealed")), "cannot be read"),
        (pem.encode("TSS2 PRIVATE KEY", _KEY.to_der() + b"\0"), "another kind"),
        (pem.encode("TSS2 PRIVATE KEY", _KEY.to_der()[:-1]), "cannot be read"),
        (pem.encode("TSS2 PRIVATE KEY", b""), "cannot be read"),
    ],
)
def test_what_is_no_key_of_ours_is_refused_and_not_quoted(file: bytes, message: str) -> None:
    with pytest.raises(KeyMaterialError, match=message) as caught:
        keys.load_pem(file, in_tpm=True)
    assert "sealed" not in str(caught.value)
