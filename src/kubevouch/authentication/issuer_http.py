"""Documents that an issuer publishes, over TLS."""

from __future__ import annotations

import urllib.parse

from kubevouch.client.options import ClientOptions, Timeouts
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.client.transport import HTTPRequest, HTTPSTransport
from kubevouch.util.clock import Clock

MAX_DOCUMENT = 1 << 20
FETCH_SECONDS = 10.0
# An issuer has its own address, that of its keys, and those of its claims.
MAX_ORIGINS = 16


class IssuerHTTP:
    """Fetches by URL, with one connection pool for each server.

    Args:
        certificate_authority: PEM of whom to trust; empty is the machine's CAs.

    Raises:
        ClientConfigurationError: the CA bundle cannot be used.
    """

    def __init__(self, certificate_authority: str, clock: Clock) -> None:
        self._tls = TLSFiles(TLSSources(ca_bundle=certificate_authority.encode() or None), clock)
        self._clock = clock
        self._transports: dict[str, HTTPSTransport] = {}

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()

    async def get(self, url: str, bearer_token: str = "") -> bytes:
        """The body of a successful answer.

        Raises:
            TransportError, ClientConfigurationError: there was no answer.
            ValueError: it was a refusal, or the URL is not https.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https":
            raise ValueError(f"got the URL {url!r}, expected https")
        headers = {"Accept": "application/json"}
        if bearer_token:
            headers["Authorization"] = f"Bearer {bearer_token}"
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        request = HTTPRequest("GET", path, FETCH_SECONDS, (), headers)
        answer = await self._transport(f"{parts.scheme}://{parts.netloc}").send(request)
        if not 200 <= answer.status < 300:
            raise ValueError(f"got status {answer.status} from {url}, expected 200")
        return answer.body

    def _transport(self, origin: str) -> HTTPSTransport:
        if origin not in self._transports:
            if len(self._transports) >= MAX_ORIGINS:
                raise ValueError(f"got {origin}, one server more than the {MAX_ORIGINS} that an issuer may have")
            options = ClientOptions(
                origin, component="oidc", timeouts=Timeouts.all(FETCH_SECONDS), max_body_bytes=MAX_DOCUMENT
            )
            self._transports[origin] = HTTPSTransport(options, tls=self._tls, clock=self._clock)
        return self._transports[origin]
