"""Tokens of the issuers that an AuthenticationConfiguration names.

Source: k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go, pkg/authentication/authenticator/
audience_agnostic.go (Kubernetes 1.36); github.com/coreos/go-oidc/v3 verify.go; RFC 7519.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from kubevouch.api.authentication_config_rules import CompiledAuthenticator, CompiledConfiguration
from kubevouch.authentication.aggregate import aggregate
from kubevouch.authentication.interface import Authentication, AuthenticationError
from kubevouch.authentication.jwt_claims import user_of
from kubevouch.authentication.oidc_keys import IssuerKeys
from kubevouch.util.clock import Clock

METHOD = "oidc"
# A token with a few hundred groups has 16 kB; headers are bounded besides.
MAX_TOKEN_BYTES = 64 * 1024
# go-oidc's for nbf; exp has none.
NOT_BEFORE_LEEWAY = dt.timedelta(minutes=5)

log = structlog.get_logger("authentication.oidc")


class OIDCAuthenticator:
    """One issuer.

    Args:
        api_audiences: what this server calls itself; a review that names other audiences is told nothing.

    Raises:
        ClientConfigurationError: the issuer's CA bundle cannot be used.
    """

    def __init__(self, compiled: CompiledAuthenticator, api_audiences: Sequence[str], clock: Clock) -> None:
        self._compiled = compiled
        self._issuer = compiled.config.issuer
        self._api_audiences = tuple(api_audiences)
        self._clock = clock
        self._keys = IssuerKeys(self._issuer, clock)

    async def close(self) -> None:
        await self._keys.close()

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        """1. the issuer  2. the signature  3. the times  4. the audience  5. mappings and rules."""
        if len(bearer_token) > MAX_TOKEN_BYTES or _unverified_issuer(bearer_token) != self._issuer.url:
            return None
        accepted = tuple(one for one in audiences if one in self._api_audiences)
        if audiences and not accepted:
            return None
        claims = _object(await self._keys.verified(bearer_token))
        if claims.get("iss") != self._issuer.url:
            raise AuthenticationError("oidc: verify token: id token issued by a different provider")
        self._check_times(claims)
        self._check_audience(claims)
        return Authentication(user_of(self._compiled, claims), METHOD, audiences=accepted)

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now().timestamp()
        expires, begins = claims.get("exp"), claims.get("nbf")
        if expires is None or not _is_number(expires) or now > expires:
            raise AuthenticationError("oidc: verify token: oidc: token is expired")
        if begins is not None and not (_is_number(begins) and now + NOT_BEFORE_LEEWAY.total_seconds() >= begins):
            raise AuthenticationError("oidc: verify token: current time before the nbf (not before) time")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        found = claims.get("aud")
        audiences = [found] if isinstance(found, str) else found
        if not isinstance(audiences, list) or not any(one in self._issuer.audiences for one in audiences):
            wanted = sorted(self._issuer.audiences)
            raise AuthenticationError(f"oidc: verify token: oidc: expected audience in {wanted} got {audiences}")


class ConfiguredIssuers:
    """The issuers of the newest configuration that could be used.

    Raises:
        ClientConfigurationError: an issuer's CA bundle cannot be used.
    """

    def __init__(self, config: CompiledConfiguration, api_audiences: Sequence[str], clock: Clock) -> None:
        self._api_audiences = tuple(api_audiences)
        self._clock = clock
        self._authenticators = self._build(config)

    async def replace(self, config: CompiledConfiguration) -> None:
        """Go on with another configuration; if it cannot be used, with the former one. Raises as the constructor."""
        former, self._authenticators = self._authenticators, self._build(config)
        for authenticator in former:
            await authenticator.close()

    async def close(self) -> None:
        for authenticator in self._authenticators:
            await authenticator.close()

    async def authenticate_token(self, bearer_token: str, audiences: Sequence[str] = ()) -> Authentication | None:
        errors = []
        for authenticator in self._authenticators:
            try:
                found = await authenticator.authenticate_token(bearer_token, audiences)
            except AuthenticationError as err:
                errors.append(err)
                continue
            if found is not None:
                return found
        if errors:
            raise AuthenticationError(aggregate(errors))
        return None

    def _build(self, config: CompiledConfiguration) -> list[OIDCAuthenticator]:
        return [OIDCAuthenticator(one, self._api_audiences, self._clock) for one in config.authenticators]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise AuthenticationError(f"oidc: parse claims: {err}") from err


def _unverified_issuer(token: str) -> object:
    """Whose token it claims to be; only chooses who verifies it."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).get("iss")
    except (AuthenticationError, ValueError):
        return None
