"""Private keys in files; how kubeadm's are read is compared in tests/contract/test_pki_signer.py."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kubevouch.pki import keys
from kubevouch.pki.errors import KeyMaterialError, ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.signature import PrivateKey

FAST = [KeyAlgorithm.ECDSA_P256, KeyAlgorithm.ECDSA_P384, KeyAlgorithm.ML_DSA_44]


@pytest.mark.parametrize("algorithm", FAST)
def test_a_key_is_written_read_and_named_as_it_was_made(algorithm: KeyAlgorithm) -> None:
    key = keys.generate(algorithm, post_quantum=True)
    again = keys.load_pem(b"text before it\n" + keys.to_pem(key))
    assert keys.algorithm_of(again) is algorithm
    assert keys.public_key_of(again).canonical_info == keys.public_key_of(key).canonical_info
    public = pem.first_block(keys.public_to_pem(keys.public_key_of(key)))
    assert public is not None and public.type == "PUBLIC KEY"
    assert keys.load_public_key(public.contents).canonical_info == keys.public_key_of(key).canonical_info
    with pytest.raises(ParseError, match="trailing data"):
        keys.load_public_key(public.contents + b"\0")


def test_labels(ec_key: PrivateKey, rsa_key: PrivateKey) -> None:
    assert keys.to_pem(ec_key).startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert keys.to_pem(rsa_key).startswith(b"-----BEGIN RSA PRIVATE KEY-----\n")
    post_quantum = keys.generate(KeyAlgorithm.ML_DSA_65, post_quantum=True)
    assert keys.to_pem(post_quantum).startswith(b"-----BEGIN PRIVATE KEY-----\n")


def test_post_quantum_keys_stand_behind_a_gate() -> None:
    for algorithm in KeyAlgorithm:
        if algorithm.is_post_quantum:
            with pytest.raises(KeyMaterialError, match="behind a gate that is closed"):
                keys.generate(algorithm)
            with pytest.raises(KeyMaterialError, match="unknown key algorithm"):
                KeyAlgorithm.parse(algorithm.value)
            assert KeyAlgorithm.parse(algorithm.value, post_quantum=True) is algorithm
        else:
            assert KeyAlgorithm.parse(algorithm.value.replace("-", "")) is algorithm
        assert algorithm.is_rsa is algorithm.value.startswith("RSA")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "tls: failed to find any PEM data in key input"),
        (pem.encode("CERTIFICATE", b"x"), "tls: found a certificate rather than a key in the PEM for the private key"),
        (pem.encode("PUBLIC KEY", b"x"), "in key input after skipping PEM blocks of the following types: [PUBLIC KEY]"),
        (pem.encode("PRIVATE KEY", b"secret"), "tls: failed to parse private key"),
        (pem.encode("MY PRIVATE KEY", b"secret"), "tls: failed to parse private key"),
    ],
)
def test_what_is_no_key(text: bytes, error: str) -> None:
    with pytest.raises(KeyMaterialError) as caught:
        keys.load_pem(text)
    assert str(caught.value).endswith(error) and "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (x25519.X25519PrivateKey.generate(), "tls: found unknown private key type in PKCS#8 wrapping"),
        (dsa.generate_private_key(1024), "tls: found unknown private key type in PKCS#8 wrapping"),
        (ec.generate_private_key(ec.BrainpoolP256R1()), "tls: failed to parse private key"),
    ],
)
def test_keys_of_other_kinds(key: PrivateKey, error: str) -> None:
    contents = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(KeyMaterialError) as caught:
        keys.load_der(contents)
    assert str(caught.value) == error
