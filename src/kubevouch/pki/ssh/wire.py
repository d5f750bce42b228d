"""SSH's own encoding (RFC 4251 section 5), read within bounds, and written."""

from __future__ import annotations

import base64
import binascii

from kubevouch.pki.errors import SSHError

_MAX_STRING = 64 << 10


class Reader:
    """A position in octets from outside. Whatever does not fit is :class:`SSHError` with the step ``structure``.

    Args:
        longest: of one string.
    """

    def __init__(self, octets: bytes, longest: int = _MAX_STRING) -> None:
        self._octets = octets
        self._at = 0
        self._longest = longest

    @property
    def position(self) -> int:
        return self._at

    def since(self, start: int) -> bytes:
        """The octets from ``start`` to here."""
        return self._octets[start : self._at]

    def take(self, count: int) -> bytes:
        if count > len(self._octets) - self._at:
            raise SSHError("structure", f"got {len(self._octets) - self._at} bytes where {count} are said to be")
        self._at += count
        return self._octets[self._at - count : self._at]

    def u8(self) -> int:
        return self.take(1)[0]

    def u32(self) -> int:
        return int.from_bytes(self.take(4))

    def u64(self) -> int:
        return int.from_bytes(self.take(8))

    def string(self) -> bytes:
        length = self.u32()
        if length > self._longest:
            raise SSHError("structure", f"got a string of {length} bytes, expected at most {self._longest}")
        return self.take(length)

    def text(self) -> str:
        try:
            return self.string().decode()
        except UnicodeDecodeError as err:
            raise SSHError("structure", "got a text that is no UTF-8") from err

    def unsigned(self) -> int:
        """An mpint that is not negative, in the one way in which it may be written."""
        octets = self.string()
        if octets and (octets[0] & 0x80 or (octets[0] == 0 and not (len(octets) > 1 and octets[1] & 0x80))):
            raise SSHError("structure", "got an integer that is negative or has zeros in front")
        return int.from_bytes(octets)

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._octets) - self._at)

    def more(self) -> bool:
        return self._at < len(self._octets)

    def end(self) -> None:
        if self.more():
            raise SSHError("structure", f"got {len(self._octets) - self._at} bytes behind the end")


def string(octets: bytes) -> bytes:
    """``octets`` with their length in front."""
    return len(octets).to_bytes(4) + octets


def base64_octets(text: str) -> bytes:
    """Raises :class:`SSHError`: ``structure``."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as err:
        raise SSHError("structure", "got no base64") from err


def unsigned(number: int) -> bytes:
    """The octets of an mpint, without their length."""
    return number.to_bytes(number.bit_length() // 8 + 1) if number else b""
