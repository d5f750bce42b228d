from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, padding, x25519

from kubevouch.pki.pod_keys import PodKeyError, PodKeySource, is_for, verify_possession
from kubevouch.pki.x509 import x509_certificate
from pod_requests import POD_UID, certificate, key_of, proof, public_key, stub

GOOD = ("Ed25519", "P-256", "P-384", "P-521", "RSA-3072", "RSA-4096")
STUB = "spec.stubPKCS10Request: Invalid value: "
UNPROVEN = "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"
ONE_WAY = "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"


def old(name: str) -> PodKeySource:
    key = key_of(name)
    return PodKeySource(public_key=public_key(key), proof=proof(key), pod_uid=POD_UID)


def fault(source: PodKeySource) -> str:
    with pytest.raises(PodKeyError) as caught:
        verify_possession(source)
    return str(caught.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_key_of_a_kind_that_pods_may_have(name: str) -> None:
    asked, proven = PodKeySource(stub_request=stub(key_of(name), "whoever")), old(name)
    for source in (asked, proven):
        assert verify_possession(source).canonical_info == public_key(key_of(name))
        for other in GOOD:
            leaf = x509_certificate.parse_der(certificate(key_of(other)))
            assert is_for(leaf, source) == (other == name)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (PodKeySource(stub_request=b"x"), f"{STUB}must be a valid PKCS#10 CSR"),
        (PodKeySource(stub_request=stub(key_of("P-256")) + b"\0"), f"{STUB}must be a valid PKCS#10 CSR"),
        (
            PodKeySource(stub_request=stub(key_of("P-256"), encoding=serialization.Encoding.PEM)),
            f"{STUB}must be a valid PKCS#10 CSR",
        ),
        (PodKeySource(stub_request=stub(key_of("Ed25519"))[:-1] + b"\0"), f"{STUB}invalid signature"),
        (
            PodKeySource(stub_request=stub(key_of("RSA-2048"))),
            f'{STUB}"2048-bit modulus": RSA keys must have modulus size 3072 or 4096',
        ),
        (
            PodKeySource(stub_request=stub(key_of("P-224"))),
            f'{STUB}"curve P-224": elliptic public keys must use curve P256, P384, or P521',
        ),
        (
            PodKeySource(stub_request=b"x" * 10241),
            "spec.stubPKCS10Request: Too long: may not be more than 10240 bytes",
        ),
        (
            PodKeySource(public_key=b"x" * 10241, proof=b"x"),
            "spec.pkixPublicKey: Too long: may not be more than 10240 bytes",
        ),
        (
            PodKeySource(public_key=b"x", proof=b"x" * 10241),
            "spec.proofOfPossession: Too long: may not be more than 10240 bytes",
        ),
        (PodKeySource(), ONE_WAY),
        (PodKeySource(public_key=b"x"), ONE_WAY),
        (PodKeySource(proof=b"x"), ONE_WAY),
        (msgspec.structs.replace(old("P-256"), stub_request=stub(key_of("P-256"))), ONE_WAY),
        (PodKeySource(stub_request=stub(key_of("P-256")), proof=b"x"), ONE_WAY),
        (
            msgspec.structs.replace(old("P-256"), public_key=b"x"),
            'spec.pkixPublicKey: Invalid value: "eA==": must be a valid PKIX-serialized public key',
        ),
        (
            old("RSA-2048"),
            'spec.pkixPublicKey: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096',
        ),
        (
            old("P-224"),
            'spec.pkixPublicKey: Invalid value: "curve P-224": elliptic public keys must use curve P256 or P384',
        ),
        *((msgspec.structs.replace(old(name), pod_uid="another"), UNPROVEN) for name in GOOD),
        *((msgspec.structs.replace(old(name), proof=b"x"), UNPROVEN) for name in GOOD),
        (msgspec.structs.replace(old("P-384"), proof=proof(key_of("P-384"), hashes.SHA384())), UNPROVEN),
        (
            msgspec.structs.replace(
                old("RSA-3072"), proof=proof(key_of("RSA-3072"), scheme=padding.PKCS1v15())
            ),
            UNPROVEN,
        ),
    ],
)  # fmt: skip
def test_a_key_that_is_none_or_that_nobody_shows_to_hold(source: PodKeySource, text: str) -> None:
    assert fault(source) == text


@pytest.mark.parametrize(
    "key", [x25519.X25519PrivateKey.generate(), dsa.generate_private_key(1024)], ids=["X25519", "DSA"]
)
def test_a_key_that_go_can_read_and_not_use(key: x25519.X25519PrivateKey | dsa.DSAPrivateKey) -> None:
    text = fault(PodKeySource(public_key=public_key(key), proof=b"x"))
    assert text.endswith(": unknown public key type; supported types are Ed25519, ECDSA, and RSA")


@pytest.mark.parametrize("salt", [0, 32, padding.PSS.MAX_LENGTH])
def test_the_salt_of_an_rsa_proof_may_be_of_any_length(salt: int) -> None:
    key = key_of("RSA-3072")
    made = proof(key, scheme=padding.PSS(padding.MGF1(hashes.SHA256()), salt))
    assert verify_possession(msgspec.structs.replace(old("RSA-3072"), proof=made)).name == "RSA-3072"


def test_a_certificate_for_what_is_no_key_is_for_nobody() -> None:
    leaf = x509_certificate.parse_der(certificate(key_of("P-256")))
    assert not is_for(leaf, PodKeySource(stub_request=b"x"))
    assert not is_for(leaf, PodKeySource(public_key=b"x"))
