"""What a stream of bytes says by the grammar of RFC 9112, read a byte at a time: what the server's reading is held to.

Our own choices, where the grammar leaves one, are marked; they are those of docs/compatibility.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_TCHAR = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset(b"0123456789")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_VISIBLE = frozenset(range(0x21, 0x7F))
_TEXT = _VISIBLE | frozenset(b" \t") | frozenset(range(0x80, 0x100))
_REG_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=%")
# Of these a parser behind may refuse a second one.
_ONCE = frozenset(
    (b"content-location", b"content-range", b"content-type", b"etag", b"max-forwards", b"server", b"user-agent")
)
MAX_CHUNK_LINE_BYTES = 256
MAX_EXTENSION_BYTES = 4096
MAX_TRAILER_BYTES = 4096
# Methods that every parser knows: another token may be a request or none.
_METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH"))


@dataclass(frozen=True)
class Message:
    """A whole request."""

    method: bytes
    target: bytes
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass
class Reading:
    """What was read.

    Args:
        refused: what follows the messages is no request.
        open_ended: what follows them may be read in several ways, or by nobody: the connection ends there.
    """

    messages: list[Message] = field(default_factory=list)
    refused: bool = False
    open_ended: bool = False


class _NoRequest(Exception):
    pass


class _More(Exception):
    """The bytes end in the middle."""


class _Unclear(Exception):
    pass


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_over(self) -> bool:
        return self.at == len(self._data)

    def peek(self) -> int:
        if self.is_over:
            raise _More
        return self._data[self.at]

    def some(self, allowed: frozenset[int], least: int = 1) -> bytes:
        begin = self.at
        while self.at < len(self._data) and self._data[self.at] in allowed:
            self.at += 1
        found = self._data[begin : self.at]
        if len(found) < least:
            self.peek()
            raise _NoRequest
        return found

    def exactly(self, text: bytes) -> None:
        for byte in text:
            if self.peek() != byte:
                raise _NoRequest
            self.at += 1

    def take(self, count: int) -> bytes:
        if len(self._data) - self.at < count:
            self.at = len(self._data)
            raise _More
        self.at += count
        return self._data[self.at - count : self.at]


def read(data: bytes) -> Reading:
    """All requests of a connection on which nothing else comes than ``data``."""
    reading, source = Reading(), _Bytes(data)
    try:
        while not source.is_over:
            _message(source, reading)
    except _NoRequest:
        reading.refused = True
    except _Unclear:
        reading.open_ended = True
    except _More:
        pass
    return reading


def _message(source: _Bytes, reading: Reading) -> None:
    if source.peek() == 0x0D:
        # Section 2.2: one empty line at most, our choice.
        source.exactly(b"\r\n")
    method = source.some(_TCHAR)
    source.exactly(b" ")
    target = source.some(_VISIBLE)
    source.exactly(b" HTTP/")
    major = source.some(_DIGITS)
    source.exactly(b".")
    minor = source.some(_DIGITS)
    source.exactly(b"\r\n")
    fields = _fields(source)
    if (major, minor) not in ((b"1", b"1"), (b"1", b"0")):
        raise _NoRequest
    values: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        values.setdefault(name.lower(), []).append(value)
    _check_host(values.get(b"host", []), needed=minor == b"1")
    form = _form(method, target, values.get(b"host", []))
    length, chunked = _framing(values, minor)
    if form != "origin" or method not in _METHODS or b"sec-websocket-key1" in values:
        raise _Unclear
    if any(len(found) > 1 and name in _ONCE for name, found in values.items()):
        raise _Unclear
    body = _chunks(source) if chunked else source.take(length)
    reading.messages.append(Message(method, target, tuple(fields), body))
    options = {each.strip(b" \t").lower() for value in values.get(b"connection", []) for each in value.split(b",")}
    if minor == b"0" or options - {b"keep-alive", b""} or b"upgrade" in values:
        raise _Unclear


def _fields(source: _Bytes) -> list[tuple[bytes, bytes]]:
    fields = []
    while source.peek() != 0x0D:
        name = source.some(_TCHAR)
        source.exactly(b":")
        value = source.some(_TEXT, 0)
        source.exactly(b"\r\n")
        fields.append((name, value.strip(b" \t")))
    source.exactly(b"\r\n")
    return fields


def _check_host(values: list[bytes], *, needed: bool) -> None:
    """Section 3.2: one, and a valid one."""
    if len(values) > 1 or (needed and not values) or (values and not _is_authority(values[0])):
        raise _NoRequest


def _is_authority(value: bytes) -> bool:
    if value.startswith(b"["):
        literal, bracket, rest = value[1:].partition(b"]")
        if not bracket or not literal or not set(literal) <= _HEX | frozenset(b":."):
            return False
        return not rest or (rest[:1] == b":" and set(rest[1:]) <= _DIGITS)
    name, _, port = value.partition(b":")
    return set(name) <= _REG_NAME and set(port) <= _DIGITS


def _form(method: bytes, target: bytes, host: list[bytes]) -> str:
    """Section 3.2. A fragment is in none of the four."""
    if b"#" in target:
        raise _NoRequest
    if target.startswith(b"/"):
        return "origin"
    if target == b"*":
        if method != b"OPTIONS":
            raise _NoRequest
        return "asterisk"
    if method == b"CONNECT":
        name, colon, port = target.rpartition(b":")
        if not colon or not port or not set(port) <= _DIGITS or not _is_authority(target) or not name:
            raise _Unclear if _is_authority(target) else _NoRequest
        return "authority"
    scheme, colon, rest = target.partition(b"://")
    authority = rest
    for end in b"/?":
        authority = authority.partition(bytes([end]))[0]
    if scheme.lower() not in (b"http", b"https") or not colon or not authority or not _is_authority(authority):
        raise _NoRequest
    if host and host[0].lower() != authority.lower():
        # Our choice; section 3.2.2 has a server believe the target.
        raise _NoRequest
    return "absolute"


def _framing(values: dict[bytes, list[bytes]], minor: bytes) -> tuple[int, bool]:
    """Section 6: length of the body, or whether it comes in chunks. Whatever is not one clear word is none."""
    lengths, codings = values.get(b"content-length", []), values.get(b"transfer-encoding", [])
    if codings:
        if lengths or minor == b"0" or len(codings) > 1 or codings[0].lower() != b"chunked":
            raise _NoRequest
        return 0, True
    if not lengths:
        return 0, False
    if len(lengths) > 1 or not lengths[0] or not set(lengths[0]) <= _DIGITS or len(lengths[0]) > 18:
        raise _NoRequest
    return int(lengths[0]), False


def _chunks(source: _Bytes) -> bytes:
    """Section 7.1, within the limits of docs/reference/limits.md."""
    body, beside = b"", 0
    while True:
        begin = source.at
        digits = source.some(_HEX)
        if len(digits) > 15:
            raise _NoRequest
        _extensions(source)
        beside += source.at - begin - len(digits)
        source.exactly(b"\r\n")
        if source.at - begin > MAX_CHUNK_LINE_BYTES or beside > MAX_EXTENSION_BYTES:
            raise _NoRequest
        size = int(digits, 16)
        if not size:
            begin = source.at
            _fields(source)
            if source.at - begin > MAX_TRAILER_BYTES:
                raise _NoRequest
            return body
        body += source.take(size)
        source.exactly(b"\r\n")


def _extensions(source: _Bytes) -> None:
    blank = frozenset(b" \t")
    while source.peek() != 0x0D:
        source.some(blank, 0)
        source.exactly(b";")
        source.some(blank, 0)
        source.some(_TCHAR)
        mark = source.at
        source.some(blank, 0)
        if source.peek() != 0x3D:
            source.at = mark
            if source.peek() not in b" \t;\r":
                raise _NoRequest
            continue
        source.exactly(b"=")
        source.some(blank, 0)
        if source.peek() != 0x22:
            source.some(_TCHAR)
            continue
        source.exactly(b'"')
        while source.peek() != 0x22:
            if source.peek() == 0x5C:
                source.exactly(b"\\")
            if source.peek() not in _TEXT:
                raise _NoRequest
            source.at += 1
        source.exactly(b'"')
