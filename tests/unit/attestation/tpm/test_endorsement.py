"""Which TPMs count: each field of what a node says of its own flipped, and each list and setting."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.tpm.endorsement import KINDS, Endorsement, Trust, verify_endorsement
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.tpm import algorithms
from kubevouch.pki.tpm.marshalling import sized
from kubevouch.pki.tpm.public_area import Public
from kubevouch.pki.x509 import x509_certificate
from pretended_tpm import EK_ATTRIBUTES, NOW, Maker, PretendedTPM, curve_key, der_of, public_of, weak_rsa

_TPM = PretendedTPM()
_MAKER = Maker()
_TRUST = Trust(roots=_MAKER.anchors)
_CERTIFICATE = _MAKER.certificate(_TPM.ek_private.public_key())
_CHAIN = (der_of(_MAKER.issuing),)
_PUBLIC = _TPM.ek.encode()
_HASH = hashlib.sha256(_TPM.ek.encode_area()).hexdigest()


def _endorsed(
    public: bytes = _PUBLIC, certificate: bytes = _CERTIFICATE, chain: Sequence[bytes] = _CHAIN, **trust: Any
) -> Endorsement:
    return verify_endorsement(public, certificate, chain, msgspec.structs.replace(_TRUST, **trust), now=NOW)


def _step(**fields: Any) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        _endorsed(**fields)
    return caught.value.step


def _changed(**fields: Any) -> bytes:
    return msgspec.structs.replace(_TPM.ek, **fields).encode()


def test_a_tpm_that_its_maker_vouches_for() -> None:
    endorsed = _endorsed()
    assert endorsed.ek_hash == _HASH
    assert endorsed.facts["tpm.manufacturer"] == "id:4D414445"
    assert endorsed.facts["tpm.ekCertificate"] == hashlib.sha256(_CERTIFICATE).hexdigest()


def test_certificates_between_may_be_known_here() -> None:
    assert _step(chain=[]) == "chain"
    between = [x509_certificate.parse_der(_CHAIN[0])]
    assert _endorsed(chain=[], intermediates=between).ek_hash == _HASH


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": EK_ATTRIBUTES | 1 << 6},
        {"attributes": EK_ATTRIBUTES | 1 << 10},
        {"attributes": EK_ATTRIBUTES | 1 << 2},
        {"attributes": EK_ATTRIBUTES & ~(1 << 7)},
        {"attributes": EK_ATTRIBUTES | 1 << 31},
        {"auth_policy": b""},
        {"auth_policy": bytes(32)},
        {"name_algorithm": algorithms.SHA384},
        {"symmetric": (algorithms.AES, 256, algorithms.CFB)},
        {"symmetric": (0, 0, 0)},
        {"scheme": (algorithms.ECDSA, algorithms.SHA256)},
        {"kdf": (0x20, algorithms.SHA256)},
        {"unique": tuple(b"\0" + each for each in _TPM.ek.unique)},
    ],
    ids=str,
)
def test_one_key_is_one_machine_whatever_else_its_public_area_says(fields: dict[str, Any]) -> None:
    """Of all this nothing is in the certificate, and a TPM answers for its key whatever was said beside it."""
    assert _step(public=_changed(**fields)) == "ek-template"
    other = hashlib.sha256(_changed(**fields)[2:]).hexdigest()
    assert _endorsed(public=_changed(**fields), allowed=frozenset({other})).ek_hash == other


@pytest.mark.parametrize("bit", [1, 4, 5, 16, 17])
def test_a_key_that_could_leave_or_do_anything_else_is_no_endorsement_key(bit: int) -> None:
    changed = _changed(attributes=EK_ATTRIBUTES & ~(1 << bit))
    listed = frozenset({hashlib.sha256(changed[2:]).hexdigest()})
    assert _step(public=changed) == _step(public=changed, allowed=listed) == "ek-attributes"


def test_an_endorsement_key_that_signs_is_none() -> None:
    assert _step(public=_changed(attributes=EK_ATTRIBUTES | 1 << 18)) == "ek-attributes"


@pytest.mark.parametrize(
    "public",
    [
        b"",
        _TPM.ek.encode()[:-1],
        _TPM.ek.encode() + b"\0",
        _TPM.ek.encode_area(),
        sized(bytes(2000)),
        b"\xff\xff" + _TPM.ek.encode_area(),
        _changed(unique=(b"\1" * 32, b"\2" * 32)),
    ],
    ids=range(7),
)
def test_structures_that_are_none(public: bytes) -> None:
    assert _step(public=public) == "structure"


def test_the_certificate_of_another_tpm() -> None:
    other = _MAKER.certificate(curve_key("other EK").public_key())
    assert _step(certificate=other) == "ek-key"


def test_a_certificate_of_another_kind_of_key() -> None:
    key: Any = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    assert _step(certificate=_MAKER.certificate(key)) == "ek-key"


@pytest.mark.parametrize(
    ("certificate", "step"),
    [
        (_CERTIFICATE[:-1], "structure"),
        (_CERTIFICATE + b"x", "structure"),
        (b"\0" * 1000, "structure"),
        (_MAKER.certificate(_TPM.ek_private.public_key(), ends=NOW - dt.timedelta(days=1)), "validity"),
        (_MAKER.certificate(_TPM.ek_private.public_key(), by="nobody"), "chain"),
        (b"", "ek-allow-list"),
    ],
    ids=["cut", "longer", "empty index", "expired", "forged", "none"],
)
def test_certificates_that_show_nothing(certificate: bytes, step: str) -> None:
    assert _step(certificate=certificate) == step


@pytest.mark.parametrize(
    "chain",
    [[b"x"], [*_CHAIN, b""], [_CHAIN[0] + b"\0"], _CHAIN * 7, [bytes(1 << 14)]],
    ids=["garbage", "empty", "longer", "many", "large"],
)
def test_chains_that_are_not_read(chain: list[bytes]) -> None:
    assert _step(chain=chain) == "structure"


def test_without_a_certificate_the_key_has_to_be_on_the_list() -> None:
    endorsed = _endorsed(certificate=b"", allowed=frozenset({_HASH}), roots=TrustAnchors([]))
    assert (endorsed.ek_hash, endorsed.facts) == (_HASH, {})
    assert _step(certificate=b"", allowed=frozenset({_HASH[:-1] + "0"})) == "ek-allow-list"
    assert _step(roots=TrustAnchors([])) == "chain"


@pytest.mark.parametrize(
    "revoked",
    [_HASH, hashlib.sha256(_CERTIFICATE).hexdigest(), hashlib.sha256(_CHAIN[0]).hexdigest()],
    ids=["key", "certificate", "CA"],
)
def test_what_is_revoked_counts_no_more(revoked: str) -> None:
    assert _step(revoked=frozenset({revoked})) == "revoked"


def test_a_key_that_is_revoked_is_not_saved_by_the_list() -> None:
    assert _step(allowed=frozenset({_HASH}), revoked=frozenset({_HASH})) == "revoked"


def test_of_the_keys_of_one_tpm_an_operator_can_let_one_kind_count() -> None:
    assert _endorsed(kinds=frozenset({"ECC-P256"}))
    assert _step(kinds=frozenset({"RSA-2048"})) == "ek-kind"


def test_a_kind_that_no_template_has_is_not_looked_for() -> None:
    key = public_of(curve_key("P-521", ec.SECP521R1), EK_ATTRIBUTES, name_algorithm=algorithms.SHA512)
    assert key.kind in KINDS
    weak = msgspec.structs.replace(_rsa_1024(), attributes=EK_ATTRIBUTES)
    assert _step(public=weak.encode()) == _step(public=_changed(curve=0x10)) == "ek-kind"


def _rsa_1024() -> Public:
    modulus = b"\xc1" + bytes(126) + b"\x01"
    return Public(type=algorithms.RSA, name_algorithm=algorithms.SHA256, attributes=0, bits=1024, unique=(modulus,))


def test_a_key_of_a_tpm_that_made_weak_ones() -> None:
    weak = weak_rsa(EK_ATTRIBUTES)
    listed = frozenset({hashlib.sha256(weak.encode_area()).hexdigest()})
    assert _step(public=weak.encode()) == _step(public=weak.encode(), allowed=listed) == "weak-key"
