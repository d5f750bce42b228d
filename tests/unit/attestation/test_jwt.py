"""Signed tokens of clouds: what of them is believed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from kubevouch.attestation import jwt
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.attestation.jwt import KeySet, KeySetError, UnknownKeyError
from token_keys import jwk, key_set, private_key, segment, signed

PAYLOAD = b'{"iss":"me"}'


@lru_cache(maxsize=1)
def keys() -> KeySet:
    return KeySet.parse(key_set(jwk("k"), jwk("other", 1)))


@lru_cache(maxsize=1)
def good() -> str:
    return signed(PAYLOAD)


def headed(number: int = 0, **header: Any) -> str:
    return signed(PAYLOAD, number, {"alg": "RS256", "kid": "k", **header})


def confused() -> str:
    """Keyed with what is published, in the form in which libraries read it."""
    spki = (
        private_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    header = segment(b'{"alg":"HS256","kid":"k"}')
    body = f"{header}.{segment(PAYLOAD)}"
    return f"{body}.{segment(hmac.digest(spki, body.encode(), hashlib.sha256))}"


def with_spare_bits(token: str) -> str:
    """The signature's last character has unused bits: the same octets, written in another way."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def test_the_payload_of_a_token_by_either_key() -> None:
    assert keys().payload(good()) == PAYLOAD
    assert keys().payload(signed(PAYLOAD, 1, {"alg": "RS256", "kid": "other", "typ": "JWT", "x5t": "abc"})) == PAYLOAD


@pytest.mark.parametrize(
    ("token", "step"),
    [
        (lambda: "", "structure"),
        (lambda: "a.b", "structure"),
        (lambda: good() + ".x", "structure"),
        (lambda: good() + "=", "structure"),
        (lambda: good() + "\n", "structure"),
        (lambda: good().replace(".", ". ", 1), "structure"),
        (lambda: good().rpartition(".")[0] + ".", "structure"),
        (lambda: good().partition(".")[0] + ".." + good().rpartition(".")[2], "structure"),
        (lambda: with_spare_bits(good()), "structure"),
        (lambda: "é." + good().partition(".")[2], "structure"),
        (lambda: "x" * (jwt.MAX_BYTES + 1), "size"),
        (lambda: signed(PAYLOAD, header=b"[]"), "structure"),
        (lambda: signed(PAYLOAD, header=b"{"), "structure"),
        (lambda: signed(PAYLOAD, header=b'{"alg":"RS256","alg":"RS256","kid":"k"}'), "duplicate-key"),
        (lambda: signed(PAYLOAD, header=b'{"alg":"RS256","kid":"k","kid":"other"}'), "duplicate-key"),
        (lambda: signed(PAYLOAD, header={"kid": "k"}), "alg"),
        (lambda: headed(alg="none"), "alg"),
        (lambda: headed(alg="rs256"), "alg"),
        (lambda: headed(alg=["RS256"]), "alg"),
        (lambda: headed(alg="RS512"), "alg"),
        (lambda: headed(alg="PS256"), "alg"),
        (confused, "alg"),
        (lambda: signed(PAYLOAD, header={"alg": "RS256"}), "kid"),
        (lambda: headed(kid="K"), "kid"),
        (lambda: headed(kid=7), "kid"),
        (lambda: headed(kid=["k"]), "kid"),
        (lambda: headed(1), "signature"),
        (lambda: headed(1, jwk=jwk("k", 1)), "signature"),
        # A key of its own is refused even where ours has signed: another reader would take it.
        (lambda: headed(jwk=jwk("k", 1)), "signature"),
        (lambda: headed(jku="https://a.test"), "signature"),
        (lambda: headed(x5u="https://a.test"), "signature"),
        (lambda: headed(x5c=[]), "signature"),
        (lambda: headed(crit=["exp"], exp=1), "header"),
        (lambda: headed(b64=False), "header"),
        (lambda: good().rpartition(".")[0] + "." + signed(b"{}").rpartition(".")[2], "signature"),
        (lambda: signed(b"{}").rpartition(".")[0] + "." + good().rpartition(".")[2], "signature"),
    ],
)
def test_a_token_is_refused_at_the_step_that_fails(token: Callable[[], str], step: str) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        keys().payload(token())
    assert caught.value.step == step


def test_any_bit_that_is_flipped_is_noticed() -> None:
    octets = good().encode()
    for at in range(0, len(octets), 7):
        with pytest.raises(RefusedEvidenceError):
            keys().payload((octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]).decode())


def test_a_key_that_is_not_known_is_told_apart() -> None:
    with pytest.raises(UnknownKeyError):
        keys().payload(signed(PAYLOAD, header={"alg": "RS256", "kid": "next"}))


def test_keys_that_sign_no_token_of_ours_are_passed_over() -> None:
    published = key_set(
        {"kty": "oct", "k": "AAAA", "kid": "k"},
        {"kty": "EC", "crv": "P-256", "kid": "k"},
        jwk("k", 1, use="enc"),
        jwk("k", 1, alg="RS512"),
        {**jwk("", 1)},
        jwk("k", 1, kty="oct"),
        {**jwk("k", 1), "kid": 7},
        7,
        jwk("k", d="secret"),
    )

    assert len(KeySet.parse(published)) == 1
    assert KeySet.parse(published).payload(good()) == PAYLOAD
    assert len(KeySet.parse(key_set(*[jwk(str(number)) for number in range(jwt.MAX_KEYS)]))) == jwt.MAX_KEYS


@pytest.mark.parametrize(
    "text",
    [
        lambda: b"",
        lambda: b"[]",
        lambda: b"{}",
        lambda: b'{"keys":{}}',
        lambda: b'{"keys":[]}',
        lambda: b'{"keys":[],"keys":[]}',
        lambda: key_set(*[jwk(str(number)) for number in range(jwt.MAX_KEYS + 1)]),
        lambda: key_set(jwk("k"), jwk("k", 1)),
        lambda: key_set(jwk("k", n="AAAA")),
        lambda: key_set(jwk("k", n="!")),
        lambda: key_set(jwk("k", n=segment(b"\xff" * 128))),
        lambda: key_set(jwk("k", n=segment(b"\xff" * 1032))),
        lambda: key_set(jwk("k", e="Ag")),
        lambda: key_set({"kty": "RSA", "kid": "k", "use": "sig"}),
        lambda: b"\xff",
    ],
)
def test_what_is_no_set_of_keys(text: Callable[[], bytes]) -> None:
    with pytest.raises(KeySetError):
        KeySet.parse(text())


@pytest.mark.parametrize("claims", [{"exp": 1.5}, {"exp": None, "iat": []}, {"aud": [1]}, {"iss": 1}])
def test_claims_have_their_types(claims: dict[str, Any]) -> None:
    with pytest.raises(RefusedEvidenceError) as caught:
        jwt.claims(json.dumps(claims).encode(), jwt.Claims)
    assert caught.value.step == "structure"
