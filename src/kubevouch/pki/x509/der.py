"""A strict, bounded reader and writer of DER.

Needed because a library for X.509 decides by itself what a name, a key or an extension may look like, and decides
otherwise than Go in places that matter (names over 64 characters, repeated values, explicit curves). The reader works
on offsets into one ``bytes`` object, never recurses and never allocates by a length it has only been told. Its
refusals are those of Go's ``encoding/asn1`` (Go 1.26), which API clients see.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kubevouch.pki.errors import DERError

BOOLEAN = 0x01
INTEGER = 0x02
BIT_STRING = 0x03
OCTET_STRING = 0x04
NULL = 0x05
OBJECT_IDENTIFIER = 0x06
UTF8_STRING = 0x0C
NUMERIC_STRING = 0x12
PRINTABLE_STRING = 0x13
T61_STRING = 0x14
IA5_STRING = 0x16
UTC_TIME = 0x17
GENERALIZED_TIME = 0x18
BMP_STRING = 0x1E
SEQUENCE = 0x30
SET = 0x31

# Identifiers with a tag number over 30 start here, so that they equal no identifier of one octet.
_HIGH_TAG = 0x100

Element = tuple[int, int, int]
"""Identifier octet, start and stop of the contents. The next element starts at the stop."""


def syntax_error(message: str) -> DERError:
    return DERError(f"asn1: syntax error: {message}")


def structure_error(message: str) -> DERError:
    return DERError(f"asn1: structure error: {message}")


def header(octets: bytes, position: int, end: int) -> Element:
    """Identifier and contents of the element at ``position``; the contents may reach beyond ``end``.

    Raises:
        DERError: there is no well-formed identifier and length before ``end``.
    """
    if position + 2 <= end:
        tag, length = octets[position], octets[position + 1]
        if length < 0x80 and tag & 0x1F != 0x1F:
            start = position + 2
            return tag, start, start + length
    return _long_header(octets, position, end)


def _long_header(octets: bytes, position: int, end: int) -> Element:
    if position >= end:
        raise syntax_error("sequence truncated")
    tag = octets[position]
    position += 1
    if tag & 0x1F == 0x1F:
        number, position = _base128(octets, position, end)
        if number < 0x1F:
            raise syntax_error("non-minimal tag")
        tag |= _HIGH_TAG + (number << 9)
    if position >= end:
        raise syntax_error("truncated tag or length")
    length = octets[position]
    position += 1
    if length >= 0x80:
        length, position = _long_length(octets, position, end, length & 0x7F)
    return tag, position, position + length


def _long_length(octets: bytes, position: int, end: int, count: int) -> tuple[int, int]:
    if count == 0:
        raise syntax_error("indefinite length found (not DER)")
    length = 0
    for _ in range(count):
        if position >= end:
            raise syntax_error("truncated tag or length")
        if length >= 1 << 23:
            raise structure_error("length too large")
        length = length << 8 | octets[position]
        position += 1
        if length == 0:
            raise structure_error("superfluous leading zeros in length")
    if length < 0x80:
        raise structure_error("non-minimal length")
    return length, position


def _base128(octets: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for count in range(5):
        if position >= end:
            raise syntax_error("truncated base 128 integer")
        octet = octets[position]
        if count == 0 and octet == 0x80:
            raise syntax_error("integer is not minimally encoded")
        position += 1
        value = value << 7 | octet & 0x7F
        if octet < 0x80:
            if value > 0x7FFFFFFF:
                raise structure_error("base 128 integer too large")
            return value, position
    if position >= end:
        raise syntax_error("truncated base 128 integer")
    raise structure_error("base 128 integer too large")


def element(octets: bytes, position: int, end: int) -> Element:
    """Any element that ends before ``end``. Raises :class:`DERError` otherwise."""
    bounds = header(octets, position, end)
    if bounds[2] > end:
        raise syntax_error("data truncated")
    return bounds


def expect(octets: bytes, position: int, end: int, tag: int, base: int = 0, what: str = "") -> tuple[int, int]:
    """Start and stop of the contents of the element at ``position``, which must have the identifier ``tag``.

    Args:
        base: where the surrounding element's contents start; Go counts the offset in its message from there.
        what: the name of the Go type in that message.

    Raises:
        DERError: nothing there, another identifier, or contents beyond ``end``.
    """
    identifier, start, stop = header(octets, position, end)
    if identifier != tag:
        raise _mismatch(tag, identifier, stop - start, start - base, what)
    if stop > end:
        raise syntax_error("data truncated")
    return start, stop


_PARAMETERS = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 "
    "timeType:0 set:false omitEmpty:false}"
)


def _mismatch(wanted: int, identifier: int, length: int, offset: int, what: str) -> DERError:
    number = identifier >> 9 if identifier >= _HIGH_TAG else identifier & 0x1F
    constructed = "true" if identifier & 0x20 else "false"
    return structure_error(
        f"tags don't match ({wanted & 0x1F} vs {{class:{(identifier & 0xFF) >> 6} tag:{number} length:{length} "
        f"isCompound:{constructed}}}) {_PARAMETERS} {what} @{offset}"
    )


def elements(octets: bytes, start: int, stop: int, tag: int | None) -> list[tuple[int, int, int]]:
    """The elements of a SEQUENCE OF or SET OF: position, start and stop of the contents of each.

    Args:
        tag: the identifier that each must have; ``None`` admits any.

    Raises:
        DERError: an element with another identifier, or one that is cut off.
    """
    bounds = []
    position = start
    while position < stop:
        got, begin, end = header(octets, position, stop)
        if tag is not None and got != tag:
            raise structure_error("sequence tag mismatch")
        if end > stop:
            raise syntax_error("truncated sequence")
        bounds.append((position, begin, end))
        position = end
    return bounds


def integer(contents: bytes) -> int:
    """The value of an INTEGER's contents. Raises :class:`DERError` when they are empty or not minimal."""
    if not contents:
        raise structure_error("empty integer")
    if len(contents) > 1 and (
        (contents[0] == 0 and contents[1] < 0x80) or (contents[0] == 0xFF and contents[1] >= 0x80)
    ):
        raise structure_error("integer not minimally-encoded")
    return int.from_bytes(contents, "big", signed=True)


def int64(contents: bytes) -> int:
    """As :func:`integer`, for at most 8 octets."""
    value = integer(contents)
    if len(contents) > 8:
        raise structure_error("integer too large")
    return value


def boolean(contents: bytes) -> bool:
    """Raises :class:`DERError` for anything but 00 and FF."""
    if len(contents) != 1:
        raise syntax_error("invalid boolean")
    if contents[0] not in {0, 0xFF}:
        raise syntax_error("invalid boolean")
    return contents[0] == 0xFF


def bit_string(contents: bytes) -> tuple[bytes, int]:
    """The octets of a BIT STRING and how many bits of the last one are unused.

    Raises:
        DERError: no octet at all, or unused bits that are set.
    """
    if not contents:
        raise syntax_error("zero length BIT STRING")
    unused = contents[0]
    if unused > 7 or (len(contents) == 1 and unused) or contents[-1] & ((1 << unused) - 1):
        raise syntax_error("invalid padding bits in BIT STRING")
    return contents[1:], unused


def right_aligned(contents: bytes) -> bytes:
    """The octets of a BIT STRING with the unused bits moved to the front, as Go reads keys and signatures."""
    octets, unused = bit_string(contents)
    if not unused:
        return octets
    return (int.from_bytes(octets, "big") >> unused).to_bytes(len(octets), "big")


# Of what certificates hold; longer ones are some requester's own.
_CACHED_OID_BYTES = 32


def object_identifier(contents: bytes) -> str:
    """Dotted decimal. Raises :class:`DERError` for arcs that are cut off, not minimal or over 31 bits."""
    return _cached_identifier(contents) if len(contents) <= _CACHED_OID_BYTES else _object_identifier(contents)


def _object_identifier(contents: bytes) -> str:
    if not contents:
        raise syntax_error("zero length OBJECT IDENTIFIER")
    first, position = _base128(contents, 0, len(contents))
    arcs = [str(first // 40), str(first % 40)] if first < 80 else ["2", str(first - 80)]
    while position < len(contents):
        arc, position = _base128(contents, position, len(contents))
        arcs.append(str(arc))
    return ".".join(arcs)


_cached_identifier = lru_cache(maxsize=256)(_object_identifier)


def encode(tag: int, *contents: bytes) -> bytes:
    """One element with the identifier octet ``tag``."""
    body = contents[0] if len(contents) == 1 else b"".join(contents)
    length = len(body)
    if length < 0x80:
        return bytes((tag, length)) + body
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + body


def encode_integer(value: int) -> bytes:
    size = (value + (value < 0)).bit_length() // 8 + 1
    return encode(INTEGER, value.to_bytes(size, "big", signed=True))


def encode_object_identifier(dotted: str) -> bytes:
    """Raises ``ValueError`` when ``dotted`` is not an OBJECT IDENTIFIER."""
    arcs = [int(arc) for arc in dotted.split(".")]
    if len(arcs) < 2 or arcs[0] > 2 or (arcs[0] < 2 and arcs[1] > 39) or min(arcs) < 0:
        raise ValueError(f"not an object identifier: {dotted!r}")
    return encode(OBJECT_IDENTIFIER, b"".join(_encode_base128(a) for a in (arcs[0] * 40 + arcs[1], *arcs[2:])))


def _encode_base128(value: int) -> bytes:
    octets = [value & 0x7F]
    while value := value >> 7:
        octets.append(0x80 | value & 0x7F)
    return bytes(reversed(octets))


def encode_named_bits(bits: Iterable[int]) -> bytes:
    """A BIT STRING with the numbered bits set; trailing zero bits are cut off, as DER wants of named bits."""
    mask = 0
    highest = -1
    for bit in bits:
        mask |= 1 << bit
        highest = max(highest, bit)
    if highest < 0:
        return encode(BIT_STRING, b"\x00")
    size = highest // 8 + 1
    octets = bytearray(size)
    for bit in range(highest + 1):
        if mask >> bit & 1:
            octets[bit // 8] |= 0x80 >> bit % 8
    return encode(BIT_STRING, bytes((size * 8 - 1 - highest,)) + bytes(octets))


def encode_bit_string(octets: bytes) -> bytes:
    """A BIT STRING of whole octets."""
    return encode(BIT_STRING, b"\x00", octets)


def encode_set(members: Iterable[bytes]) -> bytes:
    """A SET OF: the members in the order of their encodings."""
    return encode(SET, *sorted(members))
