"""Service account tokens by flags."""

import datetime as dt
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.service_account import SigningKeys
from kubevouch.pki import keys
from kubevouch.standalone.service_account_options import DEFAULT_ISSUER, ServiceAccountOptions
from kubevouch.standalone.service_accounts import (
    ServiceAccountError,
    check,
    issuer_of,
)
from throwaway_ca import ThrowawayCA

OWN = ec.generate_private_key(ec.SECP256R1())
FORMER = rsa.generate_private_key(65537, 2048)


def public(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (ServiceAccountOptions(issuers=()), "service-account-issuer is a required flag"),
        (ServiceAccountOptions(issuers=("a", "a")), 'service-account-issuer "a" is already specified'),
        (
            ServiceAccountOptions(issuers=("https://[",)),
            "service-account-issuer \"https://[\" contained a ':' but was not a valid URL: Invalid IPv6 URL",
        ),
        (
            ServiceAccountOptions(jwks_uri="http://keys"),
            "service-account-jwks-uri requires https scheme, parsed as: http://keys",
        ),
        *(
            (
                ServiceAccountOptions(max_expiration=dt.timedelta(seconds=seconds)),
                "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
            )
            for seconds in (1, 3599, (1 << 32) + 1)
        ),
    ],
)
def test_what_cannot_be_meant(options: ServiceAccountOptions, text: str) -> None:
    with pytest.raises(ServiceAccountError) as caught:
        check(options)
    assert str(caught.value) == text


@pytest.mark.parametrize("seconds", [0, 3600, 1 << 32])
def test_the_bounds_of_a_life(seconds: int) -> None:
    check(ServiceAccountOptions(max_expiration=dt.timedelta(seconds=seconds)))


def test_the_defaults_have_one_key_and_one_audience() -> None:
    issuer = issuer_of(ServiceAccountOptions(), OWN)
    assert issuer.urls == issuer.audiences == (DEFAULT_ISSUER,)
    assert [key["kid"] for key in issuer.key_set()["keys"]] == [SigningKeys(OWN).key_id]


def test_former_issuers_and_keys_are_accepted_and_published(tmp_path: Path) -> None:
    several = tmp_path / "several.pem"
    # A public key, a private one and a certificate may stand in one file, and the cluster's own again.
    other = ec.generate_private_key(ec.SECP384R1())
    pair = ThrowawayCA().issue()
    several.write_bytes(public(FORMER) + keys.to_pem(other) + pair.certificate + public(OWN))
    options = ServiceAccountOptions(("https://new", "https://old"), (several,), jwks_uri="https://keys")
    issuer = issuer_of(options, OWN)
    assert issuer.audiences == ("https://new", "https://old")
    assert len(issuer.key_set()["keys"]) == 4
    for key in (OWN, FORMER, other):
        assert issuer.verified(SigningKeys(key).sign({"a": 1})) == b'{"a":1}'
    with pytest.raises(AuthenticationError):
        issuer.verified(SigningKeys(ec.generate_private_key(ec.SECP256R1())).sign({"a": 1}))
    found = issuer.discovery("https://here/keys")
    assert found["issuer"] == "https://new"
    assert found["jwks_uri"] == "https://keys"
    assert found["id_token_signing_alg_values_supported"] == ["ES256", "ES384", "RS256"]


@pytest.mark.parametrize(
    "content", [b"", b"no PEM", public(ed25519.Ed25519PrivateKey.generate()), b"-----BEGIN PUBLIC KEY-----\nAAAA\n"]
)
def test_files_without_a_key(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keys.pem"
    path.write_bytes(content)
    with pytest.raises(ServiceAccountError, match=f"^failed to parse service-account-key-file {path}: "):
        issuer_of(ServiceAccountOptions(key_files=(path,)), OWN)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServiceAccountError, match="No such file"):
        issuer_of(ServiceAccountOptions(key_files=(tmp_path / "missing",)), OWN)
