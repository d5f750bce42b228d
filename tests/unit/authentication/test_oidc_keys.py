"""An issuer's keys: found, chosen and fetched again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

import aio
from identity_provider import IdentityProvider
from kubevouch.authentication.interface import AuthenticationError
from kubevouch.authentication.issuer_http import IssuerHTTP
from kubevouch.authentication.oidc_keys import IssuerKeys
from kubevouch.config.authentication_config import Issuer
from kubevouch.testing.clock import FakeClock
from scripted_server import reply_json

Scenario = Callable[[IdentityProvider, IssuerKeys, FakeClock, "list[bytes | None]"], Awaitable[None]]


def with_keys(folder: Path, scenario: Scenario, discovery_path: str = "", **settings: Any) -> None:
    async def run() -> None:
        async with IdentityProvider(folder) as provider:
            clock, fetched = FakeClock(), list[bytes | None]()
            authority = provider.ca.bundle.decode()
            where = f"{provider.url}{discovery_path}" if discovery_path else ""
            issuer = Issuer(url=provider.url, certificate_authority=authority, discovery_url=where)
            http = IssuerHTTP(authority, clock)
            try:
                keys = IssuerKeys(issuer, http, clock, on_fetch=fetched.append, **settings)
                await scenario(provider, keys, clock, fetched)
            finally:
                await http.close()

    aio.run(run())


def test_keys_without_an_id_are_all_tried(tmp_path: Path) -> None:
    async def scenario(
        provider: IdentityProvider, keys: IssuerKeys, clock: FakeClock, fetched: list[bytes | None]
    ) -> None:
        provider.keys = [ECKey.generate_key("P-256"), RSAKey.generate_key(2048), ECKey.generate_key("P-384")]
        for key, algorithm in zip(provider.keys, ("ES256", "PS256", "ES384"), strict=True):
            assert b'"sub":"jane"' in await keys.verified(provider.token(clock.now(), key=key, algorithm=algorithm))
        assert len(fetched) == 1

    with_keys(tmp_path, scenario)


def test_only_the_algorithms_that_were_asked_for(tmp_path: Path) -> None:
    async def scenario(
        provider: IdentityProvider, keys: IssuerKeys, clock: FakeClock, _fetched: list[bytes | None]
    ) -> None:
        key: Any = RSAKey.generate_key(2048, {"kid": "rsa"})
        provider.keys = [key]
        await keys.verified(provider.token(clock.now(), key=key, algorithm="RS256"))
        with pytest.raises(AuthenticationError, match="failed to verify id token signature"):
            await keys.verified(provider.token(clock.now(), key=key, algorithm="RS512"))

    with_keys(tmp_path, scenario, algorithms=("RS256",))


def test_keys_of_other_kinds_are_passed_over(tmp_path: Path) -> None:
    async def scenario(
        provider: IdentityProvider, keys: IssuerKeys, clock: FakeClock, fetched: list[bytes | None]
    ) -> None:
        good = provider.keys[0].as_dict(private=False)
        published = [
            {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTMy", "kid": "secret"},
            {**good, "kid": "for-encryption", "use": "enc"},
            {"kty": "EC", "crv": "P-256", "x": "!", "y": "!", "kid": "broken"},
            {"kty": "RSA", "kid": "empty"},
            {},
            good,
        ]
        document = {"issuer": provider.url, "jwks_uri": f"{provider.url}/keys"}
        provider.server.script(reply_json(document), reply_json({"keys": published}))
        await keys.verified(provider.token(clock.now()))
        secret = OctKey.import_key({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTMy", "kid": "secret"})
        with pytest.raises(AuthenticationError):
            await keys.verified(provider.token(clock.now(), key=secret, algorithm="HS256"))
        assert fetched[0] is not None and b"for-encryption" in fetched[0]

    with_keys(tmp_path, scenario)


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://another"},
        {"issuer": "ITS", "jwks_uri": "http://127.0.0.1:9/keys"},
        {"issuer": "ITS", "jwks_uri": "file:///etc/passwd"},
        {"issuer": "ITS"},
        {"issuer": 5},
        [],
    ],
)
def test_discovery_that_cannot_be_believed(tmp_path: Path, document: Any) -> None:
    async def scenario(
        provider: IdentityProvider, keys: IssuerKeys, clock: FakeClock, fetched: list[bytes | None]
    ) -> None:
        usual = provider.server.answers[0]
        told = document
        if isinstance(document, dict) and document["issuer"] == "ITS":
            told = {**document, "issuer": provider.url}
        provider.server.script(reply_json(told))
        with pytest.raises(AuthenticationError, match="authenticator not initialized"):
            await keys.verified(provider.token(clock.now()))
        assert fetched == [None]
        provider.server.script(usual)
        await keys.verified(provider.token(clock.now()))

    with_keys(tmp_path, scenario)


def test_discovery_at_another_url(tmp_path: Path) -> None:
    async def scenario(
        provider: IdentityProvider, keys: IssuerKeys, clock: FakeClock, _fetched: list[bytes | None]
    ) -> None:
        await keys.verified(provider.token(clock.now()))
        assert provider.paths == ["/elsewhere", "/keys"]

    with_keys(tmp_path, scenario, "/elsewhere")


@pytest.mark.parametrize("token", ["a.b.c", "..", "\u00e9.b.c", "e30.e30.e30"])
def test_what_is_no_token(tmp_path: Path, token: str) -> None:
    async def scenario(
        _provider: IdentityProvider, keys: IssuerKeys, _clock: FakeClock, _fetched: list[bytes | None]
    ) -> None:
        with pytest.raises(AuthenticationError, match=r"^oidc: verify token: "):
            await keys.verified(token)

    with_keys(tmp_path, scenario)
