"""The public keys of an issuer: found by OpenID Connect Discovery, kept, and fetched again when one is not known.

Source: github.com/coreos/go-oidc/v3 oidc.go, jwks.go; OpenID Connect Discovery 1.0 section 4; RFC 7517.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.issuer_http import IssuerHTTP
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.config.authentication_config import Issuer
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("authentication.oidc")

WELL_KNOWN = "/.well-known/openid-configuration"
# Signatures that anybody can verify; HMAC and "none" are not among them (oidc.AllValidSigningAlgorithms).
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
# Tokens that name unknown keys cost the issuer at most so many requests in so many seconds.
MAX_FETCHES = 5
FETCH_WINDOW = 10.0


class _Discovery(msgspec.Struct):
    issuer: str = ""
    jwks_uri: str = ""


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]] = []


class IssuerKeys:
    """Verifies signatures with the keys that the issuer publishes.

    Args:
        algorithms: those that count (RFC 7518).
        on_fetch: told of each look at the keys: what came, or None.
    """

    def __init__(
        self,
        issuer: Issuer,
        http: IssuerHTTP,
        clock: Clock,
        *,
        algorithms: Sequence[str] = ALGORITHMS,
        on_fetch: Callable[[bytes | None], None] = lambda _: None,
    ) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._algorithms = list(algorithms)
        self._on_fetch = on_fetch
        self._keys: list[tuple[str, jwk.Key]] = []
        self._keys_url = ""
        self._round = 0
        self._failure = ""
        self._fetches: deque[float] = deque(maxlen=MAX_FETCHES)
        self._lock = asyncio.Lock()

    async def verified(self, token: str) -> bytes:
        """The payload of a compact JWS that one of the keys signed.

        Raises:
            AuthenticationError: none of them did, now or after a look at the issuer.
        """
        key_id = _key_id(token)
        seen = self._round
        payload = self._verified(token, key_id)
        if payload is None and await self._refresh(seen):
            payload = self._verified(token, key_id)
        if payload is None:
            raise AuthenticationError("oidc: verify token: failed to verify id token signature")
        return payload

    def _verified(self, token: str, key_id: str) -> bytes | None:
        for known_id, key in self._keys:
            if key_id in ("", known_id):
                try:
                    return bytes(jws.deserialize_compact(token, key, algorithms=self._algorithms).payload)
                except (JoseError, ValueError, TypeError):
                    continue
        return None

    async def _refresh(self, seen: int) -> bool:
        """Fetch the keys, unless somebody has after round ``seen``; False when it is too soon.

        Raises:
            AuthenticationError: the issuer cannot be asked.
        """
        async with self._lock:
            # Whoever waited for somebody else's fetch shares its outcome: an issuer that does not answer must not make
            # the hundredth request wait a hundred times as long.
            if self._round == seen:
                now = self._clock.monotonic()
                if len(self._fetches) == MAX_FETCHES and now - self._fetches[0] < FETCH_WINDOW:
                    return False
                self._fetches.append(now)
                self._failure = await self._fetch_keys()
                self._round += 1
            if self._failure:
                raise AuthenticationError(self._failure)
            return True

    async def _fetch_keys(self) -> str:
        """What went wrong, or an empty text."""
        try:
            if not self._keys_url:
                self._keys_url = await self._discover()
            published = await self._http.get(self._keys_url)
            self._keys = _usable(published)
        except (TransportError, ClientConfigurationError, msgspec.MsgspecError, ValueError, RecursionError) as err:
            self._on_fetch(None)
            log.warning("the keys of an issuer cannot be fetched", issuer=self._issuer.url, err=str(err))
            return f"oidc: {'fetching keys' if self._keys_url else 'authenticator not initialized'}: {err}"
        self._on_fetch(published)
        return ""

    async def _discover(self) -> str:
        """Where the keys are. The document has to name the very issuer that was asked (section 4.3)."""
        url = self._issuer.discovery_url or f"{self._issuer.url.rstrip('/')}{WELL_KNOWN}"
        discovery = msgspec.json.decode(await self._http.get(url), type=_Discovery)
        if discovery.issuer != self._issuer.url:
            raise ValueError(f"got issuer {discovery.issuer!r} from discovery, expected {self._issuer.url!r}")
        if not discovery.jwks_uri.startswith("https://"):
            raise ValueError(f"got jwks_uri {discovery.jwks_uri!r} from discovery, expected https")
        return discovery.jwks_uri


def _key_id(token: str) -> str:
    try:
        key_id = jws.extract_compact(token.encode()).headers().get("kid", "")
    except (JoseError, ValueError, TypeError, RecursionError) as err:
        raise AuthenticationError("oidc: verify token: malformed jwt") from err
    return key_id if isinstance(key_id, str) else ""


def _usable(text: bytes) -> list[tuple[str, jwk.Key]]:
    """Keys of other kinds are passed over: an issuer may publish what we cannot use, never a secret."""
    keys: list[tuple[str, jwk.Key]] = []
    for entry in msgspec.json.decode(text, type=_KeySet).keys:
        if entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
            continue
        try:
            kind = jwk.RSAKey if entry["kty"] == "RSA" else jwk.ECKey
            keys.append((str(entry.get("kid") or ""), kind.import_key(entry)))
        except (JoseError, ValueError, TypeError, KeyError) as err:
            log.warning("a key of an issuer cannot be used", key_id=str(entry.get("kid")), err=str(err))
    return keys
