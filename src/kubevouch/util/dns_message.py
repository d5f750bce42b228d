"""DNS questions and answers as bytes (RFC 1035 section 4): addresses of a name, names of an address.

DNSMessageError    no answer to this question; nothing of it counts

Whoever can send a packet writes these bytes. A name is followed backwards only and a bounded number of times.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator

A, CNAME, PTR, AAAA = 1, 5, 12, 28
IN = 1
_HEADER = struct.Struct("!HHHHHH")
_FIXED = struct.Struct("!HHIH")
_ANSWER, _TRUNCATED, _RECURSE = 0x8000, 0x0200, 0x0100
_RCODE, _OPCODE = 0x000F, 0x7800
_NO_SUCH_NAME = 3
MAX_RECORDS = 64
_MAX_NAME, _MAX_LABEL, _MAX_JUMPS, _MAX_ALIASES = 255, 63, 32, 8


class DNSMessageError(ValueError):
    """No answer to this question."""


def reverse_name(address: str) -> str:
    """Under which name the names of ``address`` stand (RFC 1035 section 3.5, RFC 3596 section 2.5)."""
    return ipaddress.ip_address(address).reverse_pointer


def question(number: int, name: str, kind: int) -> bytes:
    """Raises :class:`DNSMessageError` for what is no name."""
    octets = bytearray(_HEADER.pack(number, _RECURSE, 1, 0, 0, 0))
    for label in name.rstrip(".").split("."):
        encoded = label.encode("ascii", errors="replace")
        if not 0 < len(encoded) <= _MAX_LABEL:
            raise DNSMessageError(f"got the label {label[:80]!r}")
        octets += bytes((len(encoded),)) + encoded
    octets += b"\0" + struct.pack("!HH", kind, IN)
    if len(octets) - _HEADER.size - 4 > _MAX_NAME:
        raise DNSMessageError("got a name of more than 255 octets")
    return bytes(octets)


def answers(message: bytes, number: int, name: str, kind: int) -> frozenset[str]:
    """What the answer to ``question(number, name, kind)`` says: addresses in their short text, names in lower case.

    Raises:
        DNSMessageError: it is cut, malformed, to another question, or says that nobody knows.
    """
    try:
        found, flags, questions, records, _, _ = _HEADER.unpack_from(message)
        if found != number or not flags & _ANSWER or flags & (_OPCODE | _TRUNCATED) or questions != 1:
            raise DNSMessageError("got no whole answer to this question")
        asked, position = _name(message, _HEADER.size)
        if (asked, *struct.unpack_from("!HH", message, position)) != (name.rstrip(".").lower(), kind, IN):
            raise DNSMessageError("got the answer to another question")
        code = flags & _RCODE
        if code == _NO_SUCH_NAME:
            return frozenset()
        if code or records > MAX_RECORDS:
            raise DNSMessageError(f"got the code {code} and {records} records")
        return _of_chain(list(_records(message, position + 4, records)), asked, kind)
    except (struct.error, IndexError) as err:
        raise DNSMessageError("got a message that ends too early") from err


def _of_chain(records: list[tuple[str, int, str]], name: str, kind: int) -> frozenset[str]:
    """Of the name itself, and of what it is an alias of; whatever else is in the message was not asked for."""
    for _ in range(_MAX_ALIASES):
        alias = next((value for owner, found, value in records if (owner, found) == (name, CNAME)), None)
        if alias is None:
            return frozenset(value for owner, found, value in records if (owner, found) == (name, kind))
        name = alias
    raise DNSMessageError("got too many aliases")


def _records(message: bytes, position: int, count: int) -> Iterator[tuple[str, int, str]]:
    for _ in range(count):
        owner, position = _name(message, position)
        kind, group, _, length = _FIXED.unpack_from(message, position)
        position += _FIXED.size
        value = message[position : position + length]
        if len(value) != length:
            raise DNSMessageError("got a record that ends too early")
        if group == IN and kind in (CNAME, PTR):
            yield owner, kind, _name(message, position)[0]
        elif group == IN and (kind, length) in ((A, 4), (AAAA, 16)):
            yield owner, kind, str(ipaddress.ip_address(value))
        position += length


def _name(message: bytes, position: int) -> tuple[str, int]:
    """A name in lower case, and where it ends."""
    labels: list[str] = []
    end, size, jumps = -1, 0, 0
    while True:
        length = message[position]
        if length & 0xC0 == 0xC0:
            target = (length & 0x3F) << 8 | message[position + 1]
            end = position + 2 if end < 0 else end
            jumps += 1
            if target >= position or jumps > _MAX_JUMPS:
                raise DNSMessageError("got a name that leads forward or nowhere")
            position = target
            continue
        if length > _MAX_LABEL:
            raise DNSMessageError("got a label of an unknown kind")
        position += 1
        if not length:
            return ".".join(labels), position if end < 0 else end
        label = message[position : position + length]
        size += length + 1
        if len(label) != length or size > _MAX_NAME or not label.isascii() or b"." in label:
            raise DNSMessageError("got a label that no host has")
        labels.append(label.decode("ascii").lower())
        position += length
