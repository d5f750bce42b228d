"""Reading and writing the octets of TPM structures (TCG TPM 2.0 Library, Part 2, revision 1.59).

Whoever sends a structure writes its sizes and counts as he likes: nothing is taken by a length that has only been told,
no structure recurses, and what is left over behind one is refused.
"""

from __future__ import annotations

from typing import Literal

from kubevouch.pki.errors import StructureError


class Reader:
    """A position in ``octets``; every step ends before their end or is refused.

    Args:
        what: what they are called in errors.
        order: TPMs write ``big``, firmware's event logs ``little``.
    """

    __slots__ = ("_octets", "_order", "_what", "position")

    def __init__(self, octets: bytes, what: str, order: Literal["big", "little"] = "big") -> None:
        self._octets = octets
        self._what = what
        self._order: Literal["big", "little"] = order
        self.position = 0

    @property
    def left(self) -> int:
        """Octets that have not been read."""
        return len(self._octets) - self.position

    def octets(self, count: int) -> bytes:
        """The next ``count`` octets. Raises :class:`StructureError`, as every step does."""
        if count > self.left:
            raise self.refusal(f"got {self.left} bytes at {self.position}, expected {count}")
        self.position += count
        return self._octets[self.position - count : self.position]

    def integer(self, size: int) -> int:
        """The next ``size`` octets as an unsigned number."""
        return int.from_bytes(self.octets(size), self._order)

    def sized(self, most: int) -> bytes:
        """A TPM2B: two octets of size, then at most ``most`` octets."""
        size = self.integer(2)
        if size > most:
            raise self.refusal(f"got a size of {size} at {self.position - 2}, expected at most {most}")
        return self.octets(size)

    def end(self) -> None:
        """Nothing is left."""
        if self.left:
            raise self.refusal(f"got {self.left} bytes behind the end")

    def refusal(self, message: str) -> StructureError:
        return StructureError(f"{self._what}: {message}")


def u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def sized(octets: bytes) -> bytes:
    """As a TPM2B."""
    return u16(len(octets)) + octets


def unsized(octets: bytes, what: str, most: int) -> bytes:
    """The contents of the one TPM2B that ``octets`` are. Raises :class:`StructureError`."""
    reader = Reader(octets, what)
    contents = reader.sized(most)
    reader.end()
    return contents
