"""The node's side of callback: it listens from the proof until the certificate is there, or the attempt is over."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch.attestation import settings
from kubevouch.attestation.callback.evidence import NAME, PORT, VERSIONS, Proof, answer, path
from kubevouch.attestation.interface import Asked, Binding, UnavailableError
from kubevouch.attestation.showing import Showing
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.clock import Clock

_MAX_REQUEST = 4 << 10
_SECONDS = 5.0
_MAX_CONNECTIONS = 64


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    host: the address or DNS name at which this machine is known.
    listen: the address to listen at; by default that of ``host``, or every one if that is a name.
    port: at which the server calls.
    """

    host: str
    listen: str = ""
    port: int = PORT


async def make_attestor(settings_: Mapping[str, str], clock: Clock) -> CallbackAttestor:
    """Raises :class:`SettingsError`."""
    return CallbackAttestor(settings.read(settings_, Settings, NAME, texts=True))


class CallbackAttestor(Showing):
    """An :class:`~kubevouch.attestation.interface.Attestor`."""

    name = NAME
    versions: Sequence[str] = VERSIONS
    needs_challenge = True

    def __init__(self, settings_: Settings) -> None:
        self._settings = settings_
        self._server: asyncio.Server | None = None
        # By path: of the newest proof for a key.
        self._answers: dict[str, bytes] = {}
        self._connections: dict[asyncio.StreamWriter, None] = {}

    async def attest(self, version: str, key: PrivateKey, binding: Binding, asked: Asked | None) -> bytes:
        self._answers[path(binding.spki)] = answer(binding.digest)
        if self._server is None:
            await self._listen()
        return msgspec.json.encode(Proof(host=self._settings.host))

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def port(self) -> int:
        """At which it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _listen(self) -> None:
        at = self._settings
        try:
            self._server = await asyncio.start_server(self._serve, _address(at), at.port, limit=_MAX_REQUEST)
        except OSError as err:
            raise UnavailableError(f"cannot listen at {at.listen or at.host} port {at.port}: {err.strerror}") from err

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer: for a path that nobody has a proof for, that there is none.

        Anybody may connect: the oldest connection gives way, which is none of a server that asks at once.
        """
        if len(self._connections) >= _MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
                wanted = rest.partition(b" ")[0].decode("ascii", "replace")
                body = self._answers.get(wanted, b"") if method == b"GET" else b""
                status = b"200 OK" if body else b"404 Not Found"
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
                    % (status, len(body), body)
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever does not ask in time, or in few words, gets no answer
        finally:
            self._connections.pop(writer, None)
            writer.close()


def _address(at: Settings) -> str | None:
    if at.listen:
        return at.listen
    try:
        return str(ipaddress.ip_address(at.host))
    except ValueError:
        return None
