"""Messages between processes of this program: msgpack, each behind its length in four octets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import msgspec

MAX_FRAME_BYTES = 64 << 20
"""More than anybody says. It is not for strangers: whoever can write here is this program."""
_LENGTH = struct.Struct(">I")

R = TypeVar("R")
S = TypeVar("S")


class MessageConnection(asyncio.Protocol, Generic[R, S]):
    """One side of the socket. Whatever is sent within a turn of the loop goes out together.

    Args:
        decoder: of what the other side says.
        take: is called with each of it, in order.
        lost: is called once, when nothing will come any more.
    """

    def __init__(
        self, decoder: msgspec.msgpack.Decoder[R], take: Callable[[R], None], lost: Callable[[], None]
    ) -> None:
        self._decoder = decoder
        self._take = take
        self._lost = lost
        self._encoder = msgspec.msgpack.Encoder()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._outgoing: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._lost()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        at, end = 0, len(received)
        while end - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, at)
            if length > MAX_FRAME_BYTES:
                self.abort()
                return
            if end - at < _LENGTH.size + length:
                break
            at += _LENGTH.size
            with memoryview(received) as view, view[at : at + length] as body:
                message = self._decoder.decode(body)
            at += length
            self._take(message)
        if at:
            del received[:at]

    def send(self, message: S) -> None:
        """Does nothing once the connection is lost."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        body = self._encoder.encode(message)
        self._outgoing += (_LENGTH.pack(len(body)), body)

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None:
            self._transport.write(b"".join(outgoing))

    def close(self) -> None:
        """After everything that was sent has gone out."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
