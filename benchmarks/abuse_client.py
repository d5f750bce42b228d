"""What an attacker has: an address to come from, credentials of every kind, and a client that minds no rule."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from http1 import JSON
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODE_NAME = "abuser"
# Broken connections are part of the game: whoever is attacked may hang up at any moment.
HUNG_UP = (OSError, EOFError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)

_STREAM_LIMIT = 1 << 20
_SMALL_BUFFER = 4096
_HANDSHAKES = 100  # at once: more would end in the server's time for one, not in more connections


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A running server, and what the attacker holds of it. ``seconds``: how long an abuse goes on at most."""

    host: str
    port: int
    ca_file: str
    token: str
    node_pair: str
    admin_pair: str
    seconds: float


class Attacker:
    """Connections from one address of the loopback network; ``tally`` counts what came back."""

    def __init__(self, target: Target, source: str = "127.0.0.2") -> None:
        self.target = target
        self.tally: Counter[str] = Counter()
        self.until = time.monotonic() + target.seconds
        self._source = source
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._handshakes = asyncio.Semaphore(_HANDSHAKES)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def _context(self, pair: str) -> ssl.SSLContext:
        if pair not in self._contexts:
            context = ssl.create_default_context(cafile=self.target.ca_file)
            if pair:
                context.load_cert_chain(pair)
            self._contexts[pair] = context
        return self._contexts[pair]

    async def plain(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """TCP alone."""
        return await asyncio.open_connection(self.target.host, self.target.port, local_addr=(self._source, 0))

    async def open(self, token: str = "", pair: str = "", *, deaf: bool = False) -> Line:
        """A connection after its handshake. ``deaf``: with the smallest receive buffer there is."""
        plain = socket.socket()
        plain.setblocking(False)
        if deaf:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        try:
            plain.bind((self._source, 0))
            await asyncio.get_running_loop().sock_connect(plain, (self.target.host, self.target.port))
            async with self._handshakes:
                reader, writer = await asyncio.open_connection(
                    sock=plain, ssl=self._context(pair), server_hostname=self.target.host, limit=_STREAM_LIMIT
                )
        except BaseException:
            plain.close()
            raise
        return Line(reader, writer, token)

    @asynccontextmanager
    async def line(self, token: str = "", pair: str = "") -> AsyncIterator[Line]:
        line = await self.open(token, pair)
        try:
            yield line
        finally:
            line.close()

    async def crowd(self, count: int, one: Callable[[int], Awaitable[None]]) -> None:
        """``count`` tasks at once; what breaks off is counted, and that is all."""

        async def alone(number: int) -> None:
            try:
                await one(number)
            except HUNG_UP:
                self.tally["hung up"] += 1

        await asyncio.gather(*(alone(number) for number in range(count)))

    async def insist(self, count: int, pair: str, token: str, one: Callable[[Line, int], Awaitable[None]]) -> None:
        """``count`` clients, each with a kept connection that it makes anew when it breaks, until time is up."""

        async def client(number: int) -> None:
            while not self.is_over:
                try:
                    async with self.line(token, pair) as line:
                        while not self.is_over:
                            await one(line, number)
                except HUNG_UP:
                    self.tally["hung up"] += 1
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(client(number) for number in range(count)))

    async def ask(
        self, line: Line, method: str, path: str, body: bytes = b"", body_type: str = JSON
    ) -> tuple[int, bytes]:
        """One request; its code is counted."""
        code, answer = await line.ask(method, path, body, body_type)
        self.tally[str(code)] += 1
        return code, answer


class Line:
    """A TLS connection; ``reader`` and ``writer`` for what no client says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self.reader = reader
        self.writer = writer
        self._token = token

    def head(self, method: str, path: str, *more: str) -> bytes:
        """A request's head without the empty line at its end."""
        lines = [f"{method} {path} HTTP/1.1", "Host: here", *more]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return "".join(f"{line}\r\n" for line in lines).encode()

    async def send(self, said: bytes) -> None:
        self.writer.write(said)
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", body_type: str = JSON) -> tuple[int, bytes]:
        """Code and body."""
        more = [f"Content-Type: {body_type}", f"Content-Length: {len(body)}"] if body else []
        await self.send(self.head(method, path, *more) + b"\r\n" + body)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        code = int(head[9:12])
        _, found, rest = head.partition(b"\r\ncontent-length: ")
        if found:
            return code, await self.reader.readexactly(int(rest[: rest.index(b"\r")]))
        chunks = b""
        while size := int(await self.reader.readline(), 16):
            chunks += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()
        return code, chunks

    def close(self) -> None:
        self.writer.transport.abort()


_KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def csr(name: str, node: str, signer: str = "kubernetes.io/kube-apiserver-client-kubelet", **metadata: object) -> bytes:
    """The body that creates a request as a joining kubelet makes it; all of one key."""
    subject = Subject(common_name=f"system:node:{node}", organizations=("system:nodes",))
    tree = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, **metadata},
        "spec": {
            "request": base64.b64encode(build_request(_KEY, subject)).decode(),
            "signerName": signer,
            "usages": ["digital signature", "client auth"],
        },
    }
    return json.dumps(tree, separators=(",", ":")).encode()
