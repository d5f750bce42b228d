"""Cutting a watch stream into frames, wherever the network cut it.

FrameError                a frame is too large, is no frame, or was cut off by the end of the stream

JSON frames are objects one after another, with any white space between them; protobuf frames carry four bytes of
big-endian length (k8s.io/apimachinery runtime/serializer/json ``Framer``, protobuf ``lengthDelimitedFramer``).
"""

from __future__ import annotations

import re
from typing import Protocol

# k8s.io/apimachinery runtime/serializer/streaming: no frame may be longer.
MAX_FRAME_BYTES = 16 * 1024 * 1024


class FrameError(ValueError):
    """The stream is not a sequence of frames within the bound."""


class Framer(Protocol):
    """Takes bytes as they come and gives out whole frames."""

    def feed(self, received: bytes) -> list[bytes]:
        """The frames that ``received`` completes. Raises :class:`FrameError`."""
        ...

    def finish(self) -> None:
        """The stream has ended. Raises :class:`FrameError` when that was inside a frame."""
        ...


class ProtobufFramer:
    """Length-delimited frames."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += received
        frames: list[bytes] = []
        start = 0
        while len(buffer) - start >= 4:
            length = int.from_bytes(buffer[start : start + 4], "big")
            if length > self._limit:
                raise FrameError(f"a watch frame of {length} bytes, at most {self._limit} are taken")
            if len(buffer) - start < 4 + length:
                break
            frames.append(bytes(buffer[start + 4 : start + 4 + length]))
            start += 4 + length
        del buffer[:start]
        return frames

    def finish(self) -> None:
        if self._buffer:
            raise FrameError("the stream ended inside a frame")


_BLANK = b" \t\r\n"
_OUTSIDE = re.compile(rb'["{}\[\]]')
# What a string holds up to its closing quote or to an escape that the next bytes decide.
_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class JSONFramer:
    """JSON objects one after another. Looks at each byte once, however the stream is cut."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._at = 0  # everything before it has been looked at
        self._depth = 0
        self._in_string = False

    def feed(self, received: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += received
        frames: list[bytes] = []
        while (end := self._scan()) is not None:
            self._check(end)
            frames.append(bytes(buffer[:end]))
            del buffer[:end]
            self._at = 0
        self._check(len(buffer))
        return frames

    def finish(self) -> None:
        if self._buffer:
            raise FrameError("the stream ended inside a frame")

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise FrameError(f"a watch frame of {length} bytes or more, at most {self._limit} are taken")

    def _scan(self) -> int | None:
        """The end of the first object in the buffer, or None when it is not complete."""
        buffer = self._buffer
        if self._depth == 0:
            lead = len(buffer) - len(buffer.lstrip(_BLANK))
            del buffer[:lead]
            if not buffer:
                return None
            if buffer[0] != 0x7B:
                raise FrameError("a watch frame that is no JSON object")
        while True:
            if self._in_string and not self._leave_string():
                return None
            found = _OUTSIDE.search(buffer, self._at)
            if found is None:
                self._at = len(buffer)
                return None
            self._at = found.end()
            match buffer[found.start()]:
                case 0x22:
                    self._in_string = True
                case 0x7B | 0x5B:
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth == 0:
                        return self._at

    def _leave_string(self) -> bool:
        """Move behind the closing quote; False when it has not arrived yet."""
        inside = _INSIDE.match(self._buffer, self._at)
        self._at = inside.end() if inside is not None else self._at
        if self._at >= len(self._buffer) or self._buffer[self._at] != 0x22:
            return False
        self._at += 1
        self._in_string = False
        return True
