from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

import evidence_cases
from kubevouch.pki.errors import SignatureError, StructureError
from kubevouch.pki.tpm import algorithms, public_area, signatures
from kubevouch.pki.tpm.marshalling import sized, u16
from kubevouch.pki.tpm.public_area import Public

_RSA = evidence_cases.named("ev-tpm-certify-008")
_ECDSA = evidence_cases.named("ev-tpm-certify-011")


@pytest.mark.parametrize("case", [_RSA, _ECDSA], ids=["RSASSA", "ECDSA"])
def test_a_signature_counts_for_its_bytes_only(case: evidence_cases.Case) -> None:
    key = public_area.parse(case.octets("ak_public"))
    scheme, signature = signatures.plain(case.octets("signature_tss"))
    assert scheme == key.scheme
    signatures.verify(key, case.octets("attest"), signature, scheme)
    for forged in (case.octets("attest")[:-1], case.octets("attest") + b"\0"):
        with pytest.raises(SignatureError):
            signatures.verify(key, forged, signature, scheme)
    with pytest.raises(SignatureError):
        signatures.verify(key, case.octets("attest"), signature[:-1], scheme)


def test_the_plain_form_needs_no_scheme() -> None:
    case = evidence_cases.named("ev-tpm-quote-012")
    key = public_area.parse(case.octets("ak_public"))
    signatures.verify(key, case.octets("attest"), case.octets("signature_plain"))


@pytest.mark.parametrize("scheme", [(algorithms.RSAPSS, algorithms.SHA256), (algorithms.RSASSA, algorithms.SHA1)])
def test_the_key_chooses_the_algorithm(scheme: tuple[int, int]) -> None:
    key = public_area.parse(_RSA.octets("ak_public"))
    claimed, signature = signatures.plain(u16(scheme[0]) + u16(scheme[1]) + _RSA.octets("signature_tss")[4:])
    with pytest.raises(SignatureError, match="expected 0014 with 000b"):
        signatures.verify(key, _RSA.octets("attest"), signature, claimed)


@pytest.mark.parametrize("salt", [padding.PSS.DIGEST_LENGTH, padding.PSS.MAX_LENGTH])
def test_pss_with_the_salts_that_tpms_take(salt: object) -> None:
    private = rsa.generate_private_key(65537, 2048)
    modulus = private.public_key().public_numbers().n.to_bytes(256, "big")
    key = Public(
        type=algorithms.RSA, name_algorithm=algorithms.SHA256, attributes=0, bits=2048, unique=(modulus,),
        scheme=(algorithms.RSAPSS, algorithms.SHA256),
    )  # fmt: skip
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), salt)  # type: ignore[arg-type] # what its constants are
    signature = private.sign(b"said", pss, hashes.SHA256())
    signatures.verify(key, b"said", signature, key.scheme)
    with pytest.raises(SignatureError):
        signatures.verify(
            msgspec.structs.replace(key, scheme=(algorithms.RSASSA, algorithms.SHA256)), b"said", signature
        )


@pytest.mark.parametrize("case", [_RSA, _ECDSA], ids=["RSASSA", "ECDSA"])
def test_cut_off_or_longer_is_refused(case: evidence_cases.Case) -> None:
    octets = case.octets("signature_tss")
    for length in range(len(octets)):
        with pytest.raises(StructureError):
            signatures.plain(octets[:length])
    with pytest.raises(StructureError, match="1 bytes behind the end"):
        signatures.plain(octets + b"\0")
    with pytest.raises(StructureError, match="at most 1024"):
        signatures.plain(octets + bytes(2048))


@pytest.mark.parametrize("scheme", [algorithms.ECDAA, algorithms.NULL, 5, 0x1B])
def test_other_schemes_are_not_read(scheme: int) -> None:
    with pytest.raises(StructureError, match="expected RSASSA, RSAPSS or ECDSA"):
        signatures.plain(u16(scheme) + u16(algorithms.SHA256) + sized(bytes(32)))


def test_an_ecdsa_signature_of_zeros_is_none() -> None:
    key = public_area.parse(_ECDSA.octets("ak_public"))
    scheme, zero = signatures.plain(u16(algorithms.ECDSA) + u16(algorithms.SHA256) + sized(bytes(32)) * 2)
    with pytest.raises(SignatureError):
        signatures.verify(key, _ECDSA.octets("attest"), zero, scheme)
