"""A small HTTP/1.1 client on asyncio streams, cheap enough to leave the server its processor."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_LIMIT = 64 * 1024 * 1024


class RequestFailed(Exception):
    """The server answered with an error, or broke off."""


def trusting(ca_file: Path, pair_file: Path | None = None) -> ssl.SSLContext:
    """A context that trusts one CA, and shows the client certificate in ``pair_file``."""
    context = ssl.create_default_context(cafile=str(ca_file))
    if pair_file is not None:
        context.load_cert_chain(pair_file)
    return context


def request_head(host: str, port: int, token: str) -> bytes:
    """What every request of a connection says behind its path."""
    head = f" HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: benchmark/1\r\n"
    return (head + (f"Authorization: Bearer {token}\r\n" if token else "")).encode()


class Connection:
    """One kept connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = headers

    @classmethod
    async def open(cls, host: str, port: int, context: ssl.SSLContext, token: str) -> Connection:
        reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_LIMIT)
        return cls(reader, writer, request_head(host, port, token))

    def _send(self, method: str, path: str, accept: str, body: bytes, body_type: str = JSON) -> None:
        head = f"{method} {path}".encode() + self._headers + f"Accept: {accept}\r\n".encode()
        if body:
            head += f"Content-Type: {body_type}\r\nContent-Length: {len(body)}\r\n".encode()
        self._writer.write(head + b"\r\n" + body)

    async def request(
        self, method: str, path: str, body: bytes = b"", accept: str = JSON, body_type: str = JSON
    ) -> bytes:
        """The body of a successful answer. Raises :class:`RequestFailed`."""
        self._send(method, path, accept, body, body_type)
        status, length = await self._head()
        if length is None:
            answer = b"".join([chunk async for chunk in self._chunks()])
        else:
            answer = await self._reader.readexactly(length)
        if not 200 <= status < 300:
            raise RequestFailed(f"{method} {path}: {status} {answer[:300]!r}")
        return answer

    async def watch(self, path: str, accept: str = JSON) -> AsyncIterator[bytes]:
        """The stream's bytes as they come, after the server has accepted the watch: the first piece is empty."""
        self._send("GET", path, accept, b"")
        status, length = await self._head()
        if status != 200:
            raise RequestFailed(f"GET {path}: {status} {await self._reader.readexactly(length or 0)!r}")
        yield b""
        async for chunk in self._chunks():
            yield chunk

    async def _head(self) -> tuple[int, int | None]:
        """Status, and the length of the body unless it comes in chunks."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"\r\ncontent-length: ")
        return int(head[9:12]), int(rest[: rest.index(b"\r")]) if found else None

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()

    def close(self) -> None:
        self._writer.close()
