from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, mldsa, rsa

from kubevouch.pki.errors import PolicyError
from kubevouch.pki.profile import Profile, verify_profile
from kubevouch.pki.x509 import signature
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import (
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
)

Make = Callable[..., CertificateRequest]
USAGES = ("digital signature", "client auth")


def refusal(request: CertificateRequest, *usages: str, signer: str = KUBE_APISERVER_CLIENT_KUBELET_SIGNER) -> str:
    verify_profile(Profile.COMPATIBLE, signer, request, usages or USAGES)
    with pytest.raises(PolicyError) as raised:
        verify_profile(Profile.STRICT, signer, request, usages or USAGES)
    return str(raised.value)


def test_a_kubelets_request_passes(make_request: Make) -> None:
    verify_profile(Profile.STRICT, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, make_request(), USAGES)
    names = ("worker-7", "*.blue.test", "a.b-c.d", "A.B")
    verify_profile(Profile.STRICT, KUBELET_SERVING_SIGNER, make_request(dns_names=names), ("server auth",))


def test_version_and_hash(make_request: Make) -> None:
    request = make_request()
    assert refusal(msgspec.structs.replace(request, version=1)) == "certificate request version is 1, expected 0"
    sha1 = signature.algorithm_of(bytes.fromhex("06072a8648ce3d0401"))
    assert "signed with ECDSA-SHA1" in refusal(msgspec.structs.replace(request, signature_algorithm=sha1))


def test_short_rsa_keys(make_request: Make, rsa_key: rsa.RSAPrivateKey) -> None:
    verify_profile(Profile.STRICT, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, make_request(key=rsa_key), USAGES)
    short = make_request(key=rsa.generate_private_key(65537, 1024))
    assert refusal(short) == "RSA key has 1024 bits, expected at least 2048"


def test_masters(make_request: Make) -> None:
    request = make_request(Subject(common_name="x", organizations=("system:masters",)))
    assert "system:masters group is not allowed" in refusal(request, signer=KUBE_APISERVER_CLIENT_SIGNER)


def test_long_and_odd_rsa_keys(make_request: Make, rsa_key: rsa.RSAPrivateKey) -> None:
    request = make_request(key=rsa_key)
    odd = msgspec.structs.replace(request.public_key, exponent=3)
    assert "exponent 3, expected at least 65537" in refusal(msgspec.structs.replace(request, public_key=odd))
    long = msgspec.structs.replace(request.public_key, bits=8193)
    assert "8193 bits, expected at most 8192" in refusal(msgspec.structs.replace(request, public_key=long))


def test_short_curves(make_request: Make) -> None:
    short = make_request(key=ec.generate_private_key(ec.SECP224R1()))
    assert refusal(short) == "ECDSA-P224 key has 224 bits, expected at least 256"


@pytest.mark.parametrize(
    "subject",
    [
        Subject(common_name="system:node:n", organizations=("system:nodes",)),
        Subject(common_name="system:node:n"),
        Subject(common_name="n", organizations=("a", "system:nodes")),
    ],
)
def test_nodes_come_from_the_signers_for_nodes(make_request: Make, subject: Subject) -> None:
    request = make_request(subject)
    assert refusal(request, signer=KUBE_APISERVER_CLIENT_SIGNER).endswith("does not issue identities of nodes")


@pytest.mark.parametrize("name", ["a b@c", "a\0@b", "a@b\n", ""])
def test_invisible_characters_of_addresses(make_request: Make, name: str) -> None:
    request = make_request(Subject(common_name="x"), email_addresses=(name,))
    assert refusal(request, signer=KUBE_APISERVER_CLIENT_SIGNER).endswith("contains unprintable characters")


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "a\u202eb", "a\u00a0b"])
def test_invisible_characters(make_request: Make, value: str) -> None:
    request = make_request(Subject(common_name="x", organizations=(value,)))
    assert refusal(request, signer=KUBE_APISERVER_CLIENT_SIGNER).startswith("subject contains unprintable characters: ")


@pytest.mark.parametrize("bad", ["", "a_b", "not a name", "a..b", "*", "a.*.b", "x" * 64, "a." * 127, "a.b\n"])
@pytest.mark.parametrize("at", [0, 3])
def test_each_dns_name_is_judged_by_itself(make_request: Make, bad: str, at: int) -> None:
    names = [f"n{i}.blue.test" for i in range(4)]
    names[at] = bad
    request = make_request(dns_names=tuple(names))
    assert refusal(request, "server auth", signer=KUBELET_SERVING_SIGNER).endswith("is not a DNS name")


@pytest.mark.parametrize("usage", ["cert sign", "crl sign"])
def test_no_leaf_signs(make_request: Make, usage: str) -> None:
    assert refusal(make_request(), "client auth", usage) == f'usage "{usage}" is not allowed'


def test_ml_dsa_usages(make_request: Make) -> None:
    request = make_request(key=mldsa.MLDSA44PrivateKey.generate())
    for profile in Profile:
        verify_profile(profile, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, USAGES)
        with pytest.raises(PolicyError, match='usage "key encipherment" is not possible with an ML-DSA key'):
            verify_profile(profile, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, (*USAGES, "key encipherment"))
        with pytest.raises(PolicyError, match="needs one of the usages"):
            verify_profile(profile, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, ("client auth",))


def test_values_that_are_no_strings_are_not_printed(make_request: Make) -> None:
    request = make_request()
    odd: Any = msgspec.structs.replace(request.subject, attributes=(("1.2.3", None),))
    verify_profile(
        Profile.STRICT, KUBE_APISERVER_CLIENT_KUBELET_SIGNER, msgspec.structs.replace(request, subject=odd), USAGES
    )
