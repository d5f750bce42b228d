"""One issuer's JSON Web Tokens: verified, without a thought of users.

Source: github.com/coreos/go-oidc/v3 verify.go; k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go
(Kubernetes 1.36); RFC 7519.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.oidc_keys import IssuerKeys
from kubevouch.util.clock import Clock

# A token with a few hundred groups has 16 kB; headers are bounded besides.
MAX_TOKEN_BYTES = 64 * 1024
# go-oidc's for nbf; exp has none.
NOT_BEFORE_LEEWAY = dt.timedelta(minutes=5)
# OpenID Connect Core 1.0 section 15.6.2: Google leaves the scheme out.
_GOOGLE = "accounts.google.com"


class TokenVerifier:
    """Verifies tokens of the issuer ``url`` for one of ``audiences``."""

    def __init__(self, keys: IssuerKeys, url: str, audiences: Sequence[str], clock: Clock) -> None:
        self._keys = keys
        self._url = url
        self._audiences = tuple(audiences)
        self._clock = clock

    async def verified(self, token: str) -> dict[str, Any]:
        """The claims.  1. the signature  2. the issuer  3. the times  4. the audience

        Raises:
            AuthenticationError
        """
        claims = claims_of(await self._keys.verified(token))
        if issuer_of(claims) != self._url:
            raise AuthenticationError("oidc: verify token: id token issued by a different provider")
        check_times(claims, self._clock.now())
        check_audience(claims, self._audiences)
        return claims


def claims_of(payload: bytes) -> dict[str, Any]:
    """Raises :class:`AuthenticationError`."""
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise AuthenticationError(f"oidc: parse claims: {err}") from err


def issuer_of(claims: Mapping[str, Any]) -> object:
    issuer = claims.get("iss")
    return f"https://{_GOOGLE}" if issuer == _GOOGLE else issuer


def unverified_issuer(token: str) -> object:
    """Whose token it claims to be, None if it is none; only chooses who verifies it."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN_BYTES or len(parts) != 3:
        return None
    try:
        return issuer_of(claims_of(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (AuthenticationError, ValueError):
        return None


def check_times(claims: Mapping[str, Any], now: dt.datetime) -> None:
    """Raises :class:`AuthenticationError`."""
    moment = now.timestamp()
    expires, begins = claims.get("exp"), claims.get("nbf")
    if expires is None or not _is_number(expires) or moment > expires:
        raise AuthenticationError("oidc: verify token: oidc: token is expired")
    if begins is not None and not (_is_number(begins) and moment + NOT_BEFORE_LEEWAY.total_seconds() >= begins):
        raise AuthenticationError("oidc: verify token: current time before the nbf (not before) time")


def check_audience(claims: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Raises :class:`AuthenticationError` unless the token is meant for one of ``wanted``."""
    found = claims.get("aud")
    audiences = [found] if isinstance(found, str) else found
    if not isinstance(audiences, list) or not any(one in wanted for one in audiences):
        raise AuthenticationError(f"oidc: verify token: oidc: expected audience in {sorted(wanted)} got {audiences}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
