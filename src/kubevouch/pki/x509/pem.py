"""PEM as Go's ``encoding/pem`` (Go 1.26) reads and writes it.

Every Kubernetes component takes the first block of ``spec.request`` that Go finds. A scanner that finds another one
would approve one request and sign another, so the oddities are kept: text around blocks, headers and CRLF are fine; a
malformed block (bad base64, another label at its end) is skipped as if it were text; the last BEGIN before an END
counts.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping

import msgspec

from kubevouch.pki.errors import ParseError

CERTIFICATE = "CERTIFICATE"
CERTIFICATE_REQUEST = "CERTIFICATE REQUEST"

MAX_INPUT = 4 << 20
"""Octets that one call scans: four times etcd's default request size, so no object that could be stored is refused."""

MAX_BLOCKS = 1000
"""Ends of blocks in one input. A Linux distribution's trust bundle has 150, one of all TPM vendors some hundreds."""
MAX_HEADERS = 32
"""Of one block, which has two at most where anybody writes them."""

_BEGIN = b"-----BEGIN "
_END = b"\n-----END "
_DASHES = b"-----"
_BLANK = b" \t"
# unicode.IsSpace, which bytes.TrimSpace applies to header keys and values.
_GO_SPACE = "\t\n\v\f\r \x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501


class Block(msgspec.Struct, frozen=True):
    """One PEM block. Bytes of label and headers that are not UTF-8 are kept as lone surrogates."""

    type: str
    contents: bytes
    headers: Mapping[str, str] = {}


class _Malformed(Exception):
    pass


def first_block(data: bytes, *, limit: int = MAX_INPUT) -> Block | None:
    """The first well-formed block, or nothing. Raises :class:`ParseError` as :func:`blocks` does."""
    return next(blocks(data, limit=limit), None)


def blocks(data: bytes, *, limit: int = MAX_INPUT, most: int = MAX_BLOCKS) -> Iterator[Block]:
    """The well-formed blocks in order, in time linear in the input.

    Raises:
        ParseError: the input is longer than ``limit`` octets, or has more than ``most`` ends of blocks, well formed or
            not, or a block more than :data:`MAX_HEADERS` headers.
    """
    if len(data) > limit:
        raise ParseError(f"PEM input of {len(data)} bytes, at most {limit} are read")
    # Each takes microseconds here and tens of them in who parses it: a megabyte of them took half a second of a loop.
    if (ends := data.count(_END)) > most:
        raise ParseError(f"PEM input with {ends} blocks, at most {most} are read")
    position: int | None = 0
    while position is not None:
        block, position = _next(data, position)
        if block is not None:
            yield block


def _next(data: bytes, position: int) -> tuple[Block | None, int | None]:
    """The next block and where to go on; no position means that there is nothing more."""
    while True:
        end = data.find(_END, position)
        if end < 0:
            return None, None
        label_again = end + len(_END)
        begin = data.rfind(_BEGIN, position, end)
        # Behind the END of a malformed block a BEGIN counts without a newline before it, as at the start of the text.
        if begin < 0 or (begin > position and data[begin - 1] != 0x0A):
            position = label_again
            continue
        try:
            return _block(data, begin + len(_BEGIN), end)
        except _Malformed:
            position = label_again


def _block(data: bytes, position: int, end: int) -> tuple[Block | None, int | None]:
    """The block whose label starts at ``position`` and whose END line follows the newline at ``end``."""
    label, position = _line(data, position)
    if not label.endswith(_DASHES):
        raise _Malformed
    label = label[:-5]
    headers: dict[str, str] = {}
    lines = 0
    while True:
        if position >= len(data):
            return None, None
        line, behind = _line(data, position)
        key, colon, value = line.partition(b":")
        if not colon:
            break
        lines += 1
        if lines > MAX_HEADERS:
            raise ParseError(f"a PEM block has more than {MAX_HEADERS} headers")
        headers[_text(key).strip(_GO_SPACE)] = _text(value).strip(_GO_SPACE)
        position = behind
    if position > end + 1:
        # The headers swallowed the END line: nothing behind it can be the end of this block, nor is it text.
        return None, None
    if headers and position > end:
        raise _Malformed
    trailer = end + len(_END)
    if not data.startswith(label + _DASHES, trailer):
        raise _Malformed
    if _line(data, trailer + len(label) + len(_DASHES))[0]:
        raise _Malformed
    contents = _base64(data[position:end]) if position < end else b""
    return Block(_text(label), contents, headers), _line(data, trailer)[1]


def _line(data: bytes, position: int) -> tuple[bytes, int]:
    """The line at ``position`` without its end and trailing blanks, and where the next one starts."""
    newline = data.find(b"\n", position)
    if newline < 0:
        return data[position:].rstrip(_BLANK), len(data)
    stop = newline - 1 if newline > position and data[newline - 1] == 0x0D else newline
    return data[position:stop].rstrip(_BLANK), newline + 1


def _base64(text: bytes) -> bytes:
    packed = text.translate(None, b" \t\r\n")
    # strict_mode lets superfluous padding pass (CPython 3.11), Go does not.
    if len(packed) % 4 or packed.endswith(b"==="):
        raise _Malformed
    try:
        return binascii.a2b_base64(packed, strict_mode=True)
    except binascii.Error:
        raise _Malformed from None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def encode(label: str, contents: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """One block: 64 columns, LF, ``Proc-Type`` before the other headers, those sorted.

    Raises:
        ValueError: a header's key contains a colon.
    """
    head = ""
    if headers:
        if any(":" in key for key in headers):
            raise ValueError("a PEM header key must not contain a colon")
        keys = sorted(headers, key=lambda key: (key != "Proc-Type", key))
        head = "".join(f"{key}: {headers[key]}\n" for key in keys) + "\n"
    body = binascii.b2a_base64(contents, newline=False)
    lines = b"".join(body[i : i + 64] + b"\n" for i in range(0, len(body), 64))
    return f"-----BEGIN {label}-----\n{head}".encode() + lines + f"-----END {label}-----\n".encode()
