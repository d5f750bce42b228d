"""Distributed claims: groups that do not fit into a token, fetched from where it says.

Source: OpenID Connect Core 1.0 section 5.6.2; k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go
(Kubernetes 1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.issuer_http import IssuerHTTP
from kubevouch.authentication.oidc_keys import IssuerKeys
from kubevouch.authentication.oidc_token import TokenVerifier, unverified_issuer
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.config.authentication_config import Issuer
from kubevouch.util.clock import Clock
from kubevouch.util.expiring_cache import ExpiringCache

_NAMES, _SOURCES = "_claim_names", "_claim_sources"
# How long kube-apiserver remembers whose a token is, and with it what was fetched for it (TokenSuccessCacheTTL).
REMEMBER_SECONDS = 10.0
REMEMBERED = 1024
# Who signs the claims of one issuer: very few.
MAX_SIGNERS = 8


class ClaimEndpoint(msgspec.Struct, frozen=True):
    """Where a claim is fetched, and with which bearer token."""

    url: str
    access_token: str = ""


class _Source(msgspec.Struct):
    endpoint: str = ""
    access_token: str = ""


def endpoint_for(claims: Mapping[str, Any], claim: str) -> ClaimEndpoint | None:
    """Where to fetch ``claim``; None if it is there already, nobody promised it, or it is an aggregated one.

    Raises:
        AuthenticationError: what the token says of it makes no sense.
    """
    if claim in claims or _NAMES not in claims:
        return None
    try:
        names = msgspec.convert(claims[_NAMES], dict[str, str])
    except msgspec.ValidationError as err:
        raise _error(f"oidc: error parsing distributed claim names: {err}") from err
    if _SOURCES not in claims:
        raise _error("oidc: no claim sources")
    try:
        sources = msgspec.convert(claims[_SOURCES], dict[str, _Source])
    except msgspec.ValidationError as err:
        raise _error(f"oidc: could not parse claim sources: {err}") from err
    if claim not in names:
        return None
    source = sources.get(names[claim])
    if source is None:
        raise _error(f"id token _claim_names contained a source {names[claim]} missing in _claims_sources")
    return ClaimEndpoint(source.endpoint, source.access_token) if source.endpoint else None


class DistributedClaims:
    """Fetches one claim of one issuer's tokens. What comes back is a token itself, of whichever issuer signed it."""

    def __init__(self, claim: str, issuer: Issuer, http: IssuerHTTP, clock: Clock) -> None:
        self._claim = claim
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._verifiers: dict[str, TokenVerifier] = {}
        self._fetched: ExpiringCache[bytes, Any] = ExpiringCache(REMEMBERED, clock)

    async def expanded(self, token: str, claims: dict[str, Any]) -> dict[str, Any]:
        """``claims`` of the verified ``token``, with the claim in them if it is to be had elsewhere.

        Raises:
            AuthenticationError: it cannot be fetched, or does not hold.
        """
        endpoint = endpoint_for(claims, self._claim)
        if endpoint is None:
            return claims
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        value = self._fetched.get(key)
        if value is None:
            value = await self._resolved(endpoint)
            self._fetched.put(key, value, REMEMBER_SECONDS)
        return {**claims, self._claim: value}

    async def _resolved(self, endpoint: ClaimEndpoint) -> Any:
        """1. fetch  2. choose who verifies it  3. verify  4. take the claim"""
        claim = self._claim
        try:
            text = (await self._http.get(endpoint.url, endpoint.access_token)).decode("ascii").strip()
        except (TransportError, ClientConfigurationError, ValueError) as err:
            raise _error(f'while getting distributed claim "{claim}": {err}') from err
        issuer = unverified_issuer(text)
        if not isinstance(issuer, str):
            raise _error(f'getting untrusted issuer from endpoint {endpoint.url} failed for claim "{claim}"')
        try:
            claims = await self._verifier(issuer).verified(text)
        except AuthenticationError as err:
            raise _error(f"verify distributed claim token: {err}") from err
        if claims.get(claim) is None:
            raise _error(f'jwt returned by distributed claim endpoint "{endpoint.url}" did not contain claim: {claim}')
        return claims[claim]

    def _verifier(self, url: str) -> TokenVerifier:
        if url not in self._verifiers:
            if len(self._verifiers) >= MAX_SIGNERS:
                raise _error(f"verifying untrusted issuer {url} failed: more than {MAX_SIGNERS} signers of one issuer")
            signer = Issuer(url=url, certificate_authority=self._issuer.certificate_authority)
            keys = IssuerKeys(signer, self._http, self._clock)
            self._verifiers[url] = TokenVerifier(keys, url, self._issuer.audiences, self._clock)
        return self._verifiers[url]


def _error(text: str) -> AuthenticationError:
    return AuthenticationError(f"oidc: could not expand distributed claims: {text}")
