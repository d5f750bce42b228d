"""What is fetched from an issuer; whole answers are in the tests of its keys and of distributed claims."""

from __future__ import annotations

from pathlib import Path

import pytest

import aio
from identity_provider import IdentityProvider
from kubevouch.authentication.issuer_http import MAX_ORIGINS, IssuerHTTP
from kubevouch.client.interface import TransportError
from kubevouch.testing.clock import FakeClock


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/keys", "file:///etc/passwd", "//127.0.0.1:1/keys", ""])
def test_only_https(url: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="expected https"):
            await IssuerHTTP("", FakeClock()).get(url, "token")

    aio.run(scenario())


def test_servers_are_counted() -> None:
    """A token's claims name their servers: whoever signs them must not make connections without end."""

    async def scenario() -> None:
        http = IssuerHTTP("", FakeClock())
        for port in range(1, MAX_ORIGINS + 1):
            with pytest.raises(TransportError):
                await http.get(f"https://127.0.0.1:{port}/")
        with pytest.raises(TransportError):
            await http.get("https://127.0.0.1:1/again")
        with pytest.raises(ValueError, match=f"one server more than the {MAX_ORIGINS} that an issuer may have"):
            await http.get(f"https://127.0.0.1:{MAX_ORIGINS + 1}/")
        await http.close()

    aio.run(scenario())


def test_a_refusal_is_no_document(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with IdentityProvider(tmp_path) as provider:
            http = IssuerHTTP(provider.ca.bundle.decode(), FakeClock())
            with pytest.raises(ValueError, match="got status 401 from"):
                await http.get(f"{provider.url}/groups?a=b", "token")
            await http.close()

    aio.run(scenario())
