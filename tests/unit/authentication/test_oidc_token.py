"""What a token says of itself."""

import base64
import datetime as dt
from typing import Any

import msgspec
import pytest

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.oidc_token import (
    MAX_TOKEN_BYTES,
    check_audience,
    check_times,
    claims_of,
    issuer_of,
    unverified_issuer,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STAMP = int(NOW.timestamp())


def token(payload: bytes) -> str:
    return f"h.{base64.urlsafe_b64encode(payload).rstrip(b'=').decode()}.s"


@pytest.mark.parametrize("claims", [{"exp": STAMP}, {"exp": STAMP + 0.5}, {"exp": STAMP + 1, "nbf": STAMP + 300}])
def test_times_that_hold(claims: dict[str, Any]) -> None:
    check_times(claims, NOW)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"exp": None},
        {"exp": STAMP - 1},
        {"exp": str(STAMP + 9)},
        {"exp": True},
        {"exp": [STAMP + 9]},
        {"exp": STAMP + 9, "nbf": STAMP + 301},
        {"exp": STAMP + 9, "nbf": "soon"},
        {"exp": STAMP + 9, "nbf": False},
    ],
)
def test_times_that_do_not(claims: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationError):
        check_times(claims, NOW)


@pytest.mark.parametrize("audience", ["a", ["a"], ["x", "b"], ["b", 5]])
def test_audiences_that_are_meant(audience: object) -> None:
    check_audience({"aud": audience}, ("a", "b"))


@pytest.mark.parametrize("claims", [{}, {"aud": ""}, {"aud": []}, {"aud": ["x"]}, {"aud": {"a": 1}}, {"aud": "ab"}])
def test_audiences_that_are_not(claims: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationError, match=r"expected audience in \['a', 'b'\]"):
        check_audience(claims, ("b", "a"))


def test_google_leaves_the_scheme_out() -> None:
    assert issuer_of({"iss": "accounts.google.com"}) == "https://accounts.google.com"
    assert issuer_of({"iss": "accounts.google.com/"}) == "accounts.google.com/"
    assert issuer_of({}) is None


def test_whose_token_it_claims_to_be() -> None:
    assert unverified_issuer(token(b'{"iss":"https://i"}')) == "https://i"
    huge = token(msgspec.json.encode({"iss": "https://i", "x": "x" * MAX_TOKEN_BYTES}))
    for other in ("", "a.b", "a.b.c.d", "a.!.c", token(b"[]"), token(b"{"), token(b"\xff"), huge, token(b"[" * 9999)):
        assert unverified_issuer(other) is None


def test_claims_have_to_be_an_object() -> None:
    assert claims_of(b'{"a":[1]}') == {"a": [1]}
    for payload in (b"", b"1", b"[]", b'{"a"', b"\xff", b'{"a":' + b"[" * 9999):
        with pytest.raises(AuthenticationError, match=r"^oidc: parse claims: "):
            claims_of(payload)
