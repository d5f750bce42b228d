"""Bounded requests to metadata services and to the APIs of clouds.

What is asked is chosen by settings and by rules, never by an answer: no redirect is followed, no proxy of the
environment is asked, and names that a certificate or a machine has written are nobody's business here: callers hold
their own lists of hosts. Whatever goes wrong on the way is :class:`UnavailableError`, because a machine must not be
refused for ever for what a network did.
"""

from __future__ import annotations

import asyncio
import email.utils
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from kubevouch.attestation.interface import CountingSources, SettingsError, Sources, UnavailableError
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, client_context

MAX_BODY = 64 << 10
"""Octets of an answer."""
SECONDS = 10.0
"""For one request, from looking up the name to the last octet."""
MAX_RETRY_AFTER = 300.0
"""Seconds: who answers "try again tomorrow" is asked again sooner."""
_RETRY_AFTER = 5.0
_BUSY = frozenset({408, 425, 429})


Asked = Callable[[str, str], None]
"""Told of each request: the host, and the status of its answer, or ``none`` without one."""


class Answer(msgspec.Struct, frozen=True):
    """What came back; ``headers`` have lower-case names, of repeated ones the first."""

    status: int
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The body; octets that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")


class Web:
    """Makes requests; holds no connection between them.

    Args:
        ca_file: the roots for https in PEM; empty for those of the system.
        connect_to: host and port to connect to instead, ``IP:port``, for each host name. Names in requests and
            certificates stay what they are: for private endpoints, and for servers of tests.
        seconds: for one request.
        asked: is told of each request.

    Raises:
        SettingsError: ``ca_file`` cannot be read, or ``connect_to`` has no address.
    """

    def __init__(
        self,
        *,
        ca_file: str = "",
        connect_to: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        asked: Asked | None = None,
    ) -> None:
        # Loading the system's takes a tenth of a second, and metadata services speak plain HTTP.
        self._tls = _context(ca_file) if ca_file else None
        self._elsewhere = {name.lower(): _address(text) for name, text in (connect_to or {}).items()}
        self._seconds = seconds
        self._asked = asked or _uncounted

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """As :meth:`send`."""
        return await self.send("GET", url, headers)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit: int = MAX_BODY,
    ) -> Answer:
        """The answer to one request.

        Args:
            url: sent as it is written, so that signatures over it hold.
            headers: sent beside ``Host`` and ``Content-Length``, and no others.
            limit: octets of the answer's body.

        Raises:
            UnavailableError: no answer, no whole answer in time, more than ``limit``, a redirect, 408, 425, 429 or
                5xx. Every other status is the caller's to judge.
        """
        host = URL(url, encoded=True).host or "?"
        try:
            async with asyncio.timeout(self._seconds), self._session(secure=url.startswith("https:")) as session:
                return await self._exchange(session, method, url, dict(headers or {}), body, limit)
        except TimeoutError as err:
            self._asked(host, "none")
            raise UnavailableError(f"{host} has not answered within {self._seconds:g} s") from err
        except (aiohttp.ClientError, OSError, ValueError) as err:
            self._asked(host, "none")
            raise UnavailableError(f"{host} cannot be asked: {str(err)[:200] or type(err).__name__}") from err

    def _session(self, *, secure: bool) -> aiohttp.ClientSession:
        if secure and self._tls is None:
            self._tls = _context("")
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._tls or True, resolver=_Resolver(self._elsewhere), force_close=True
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            # What arrives is what counts against the limit.
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def _exchange(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: str,
        headers: dict[str, str],
        body: bytes | None,
        limit: int,
    ) -> Answer:
        wanted = URL(url, encoded=True)
        async with session.request(method, wanted, headers=headers, data=body, allow_redirects=False) as response:
            host = wanted.host or "?"
            self._asked(host, str(response.status))
            if 300 <= response.status < 400:
                raise UnavailableError(f"{host} answered with a redirect, which is not followed")
            if response.status in _BUSY or response.status >= 500:
                raise UnavailableError(f"{host} answered {response.status}", _retry_after(response.headers))
            taken = bytearray()
            async for chunk in response.content.iter_chunked(16 << 10):
                taken += chunk
                if len(taken) > limit:
                    raise UnavailableError(f"{host} answered with more than {limit} bytes")
            found = {name.lower(): value for name, value in reversed(list(response.headers.items()))}
            return Answer(response.status, bytes(taken), found)


def _uncounted(host: str, status: str) -> None:
    """For whoever does not count."""


def counter(sources: Sources) -> Asked | None:
    """What a :class:`Web` has to tell, if ``sources`` count."""
    return sources.asked if isinstance(sources, CountingSources) else None


class _Resolver(aiohttp.ThreadedResolver):
    """Looks names up, but for those that settings send elsewhere."""

    def __init__(self, elsewhere: Mapping[str, tuple[str, int]]) -> None:
        super().__init__()
        self._elsewhere = elsewhere

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[Any]:  # the type of its members is not public
        found = self._elsewhere.get(host.lower())
        if found is None:
            return await super().resolve(host, port, family)
        address, port = found
        version = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": version,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
        ]


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return client_context(ClientTLS(Path(ca_file).read_bytes() if ca_file else None))
    except (OSError, ClientConfigurationError) as err:
        raise SettingsError(f"{Path(ca_file)}: no certificates can be read: {err}") from err


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise SettingsError(f"got {text!r} to connect to, expected an address and a port, such as 10.0.0.7:443")
    return host.strip("[]"), int(port)


def _retry_after(headers: Mapping[str, Any]) -> float:
    """Seconds (RFC 9110 section 10.2.3), a date counted from the answer's own."""
    said = str(headers.get("Retry-After", "")).strip()
    if said.isascii() and said.isdecimal():
        return min(float(said[:6]), MAX_RETRY_AFTER)
    try:
        until, sent = (email.utils.parsedate_to_datetime(each) for each in (said, str(headers.get("Date", ""))))
        return min(max((until - sent).total_seconds(), 1.0), MAX_RETRY_AFTER)
    except (ValueError, TypeError):
        return _RETRY_AFTER
