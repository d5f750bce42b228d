"""The framing of HTTP/1.1 requests, by the grammar of RFC 9112 and counted in bytes.

It stands before aiohttp's parser, which bounds each field of a head but not the head, keeps what it has of one wherever
it is cut, and is more lenient than a server that stands behind proxies may be. What passes here means the same to
every reader: heads come whole, chunks come merged and without their extensions, trailers do not come.

Stricter than the grammar, where leniency is a way to smuggle: lines end with CRLF only, no second Content-Length even
if it is equal, no coding but ``chunked``. More lenient in one place: a target may hold any visible character but ``#``,
as Go's server reads it.
"""

from __future__ import annotations

import re

import msgspec

# Go's net/http, DefaultMaxHeaderBytes.
MAX_HEAD_BYTES = 1 << 20
# Before a connection has authenticated: twice the largest token that identity providers are known to issue.
MAX_FIRST_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 128
# A chunk's size with its extensions, of which nobody has any; and the trailers that are read to be dropped.
MAX_CHUNK_LINE_BYTES = 256
MAX_EXTENSION_BYTES = 4096
MAX_TRAILER_BYTES = 4096

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_VALUE = rb"[\t -~\x80-\xff]*+"
_HEAD = re.compile(
    rb"(" + _TOKEN + rb") ([!-~]++) HTTP/([0-9])\.([0-9])\r\n(?:" + _TOKEN + rb":" + _VALUE + rb"\r\n)*+\r\n"
)
_REQUEST_LINE = re.compile(_TOKEN + rb" [!-~]++ HTTP/[0-9]\.[0-9]\r\n")
# The fields that decide where a request ends and for whom it is.
_FRAMING = re.compile(rb"\n(host|content-length|transfer-encoding):[\t ]*+(" + _VALUE + rb")", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_AUTHORITY = rb"(?:[A-Za-z0-9._~!$&'()*+,;=%\-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
_HOST = re.compile(_AUTHORITY)
_ABSOLUTE = re.compile(rb"https?://(" + _AUTHORITY + rb")(?:[/?][!-~]*)?", re.IGNORECASE)
_CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]{1,15})((?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*"
    rb"(?:" + _TOKEN + rb'|"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)*)\r\n'
)  # fmt: skip
_TRAILER = re.compile(_TOKEN + rb":" + _VALUE + rb"\r\n")
# No head and no line of chunks holds them, so nobody has to wait for the end of one that does.
_STRAY = re.compile(rb"(?<!\r)\n|\r[^\n]|\0")


class Refusal(msgspec.Struct, frozen=True):
    """Why the bytes are no request: the status to answer with, after which the connection ends."""

    status: int
    reason: str = ""
    in_body: bool = False
    """The request that the body belongs to was handed on already."""


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason)
        self.status = status


class RequestFraming:
    """The bytes of one connection.

    Args:
        max_head: bytes of a head, from its first to the empty line's end.
    """

    __slots__ = (
        "_blank", "_buffer", "_chunked", "_extensions", "_left", "_searched", "_trailers", "max_head", "refusal"
    )  # fmt: skip

    def __init__(self, max_head: int = MAX_HEAD_BYTES) -> None:
        self.max_head = max_head
        self.refusal: Refusal | None = None
        self._buffer = b""
        # How much of a head was looked at in vain, and whether an empty line came before it.
        self._searched = 0
        self._blank = False
        # Of the body, or of a chunk with the line's end behind it.
        self._left = 0
        self._chunked = False
        self._extensions = 0
        self._trailers: int | None = None

    @property
    def held(self) -> int:
        """Bytes that wait for more of them, or for room."""
        return len(self._buffer)

    @property
    def in_body(self) -> bool:
        return self._chunked or self._left > 0

    def receive(self, data: bytes, room: int) -> tuple[list[bytes], list[int]]:
        """What the parser may see now, and the sizes of the heads that are whole in it.

        Args:
            data: what came, or nothing, when there is room again.
            room: how many requests may begin; what is behind them waits.

        After a ``refusal`` nothing passes any more.
        """
        passed: list[bytes] = []
        heads: list[int] = []
        if self.refusal is not None:
            return passed, heads
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at = 0
        try:
            while at < len(data):
                if self._chunked:
                    reached = self._take_chunks(data, at, passed)
                elif self._left:
                    reached = min(len(data), at + self._left)
                    self._left -= reached - at
                    passed.append(data[at:reached] if at or reached < len(data) else data)
                elif len(heads) < room:
                    reached = self._take_head(data, at, passed, heads)
                else:
                    reached = at
                if reached == at:
                    break
                at = reached
        except _RefusedError as err:
            self.refusal = Refusal(err.status, str(err), in_body=self.in_body)
            return passed, heads
        self._buffer = data[at:]
        return passed, heads

    # -------------------------------------------------------------- heads

    def _take_head(self, data: bytes, at: int, passed: list[bytes], heads: list[int]) -> int:
        """Where the head ends that begins at ``at``; ``at`` itself if it is not whole."""
        if not self._blank and data.startswith(b"\r\n", at):
            # One empty line before a request is forgiven (RFC 9112 section 2.2).
            self._blank, self._searched = True, 0
            return at + 2
        end = data.find(b"\r\n\r\n", at + max(self._searched - 3, 0)) + 4
        size = (end if end >= 4 else len(data)) - at
        if size > self.max_head:
            raise _RefusedError(431)
        if end < 4:
            if _STRAY.search(data, at + max(self._searched - 1, 0)):
                raise _RefusedError(400, "malformed HTTP request")
            self._searched = size
            return at
        self._searched, self._blank = 0, False
        head = data[at:end] if at or end < len(data) else data
        self._begin_body(head)
        passed.append(head)
        heads.append(size)
        return end

    def _begin_body(self, head: bytes) -> None:
        """Check a whole head, and note what follows it."""
        match = _HEAD.fullmatch(head)
        if match is None:
            line = _REQUEST_LINE.match(head)
            raise _RefusedError(400, "malformed HTTP header" if line else "malformed HTTP request")
        method, target, major, minor = match.groups()
        if major != b"1" or minor not in b"01":
            raise _RefusedError(505, f"unsupported protocol version HTTP/{major.decode()}.{minor.decode()}")
        if head.count(b"\n") - 2 > MAX_HEADERS:
            raise _RefusedError(431)
        length = coding = host = None
        for name, value in _FRAMING.findall(head):
            value = value.rstrip(b" \t")
            match name.lower():
                case b"host":
                    if host is not None:
                        raise _RefusedError(400, "too many Host headers")
                    host = value
                case b"content-length":
                    if length is not None or not _LENGTH.fullmatch(value):
                        raise _RefusedError(400, "bad Content-Length")
                    length = int(value)
                case _:
                    if coding is not None:
                        raise _RefusedError(400, "too many transfer encodings")
                    coding = value
        _check_target(method, target, host)
        if host is None and minor == b"1":
            raise _RefusedError(400, "Missing 'Host' header")
        if coding is not None:
            if length is not None or minor == b"0":
                raise _RefusedError(400, "Transfer-Encoding with Content-Length or HTTP/1.0")
            if coding.lower() != b"chunked":
                raise _RefusedError(501, "unsupported transfer encoding")
            self._chunked = True
            self._extensions = 0
            self._trailers = None
        else:
            self._left = length or 0

    # -------------------------------------------------------------- chunks

    def _take_chunks(self, data: bytes, at: int, passed: list[bytes]) -> int:
        """Merge the chunks that are there into one: tiny ones in great number cost the parser nothing."""
        merged: list[bytes] = []
        while self._chunked and at < len(data):
            if self._left:
                reached = self._take_chunk(data, at, merged)
            else:
                reached = self._take_line(data, at)
            if reached == at:
                break
            at = reached
        if merged:
            whole = b"".join(merged)
            passed.append(b"%x\r\n%s\r\n" % (len(whole), whole))
        if not self._chunked:
            passed.append(b"0\r\n\r\n")
        return at

    def _take_chunk(self, data: bytes, at: int, merged: list[bytes]) -> int:
        """Of a chunk what is there; its last two bytes are the line's end."""
        if self._left > 2:
            reached = min(len(data), at + self._left - 2)
            merged.append(data[at:reached])
            self._left -= reached - at
            return reached
        if not b"\r\n".startswith(data[at : at + 2]):
            raise _RefusedError(400, "malformed chunked encoding")
        if len(data) < at + 2:
            return at
        self._left = 0
        return at + 2

    def _take_line(self, data: bytes, at: int) -> int:
        """A chunk's size, or one of the trailers."""
        most = MAX_CHUNK_LINE_BYTES if self._trailers is None else MAX_TRAILER_BYTES - self._trailers
        end = data.find(b"\n", at, at + most) + 1
        if not end:
            if len(data) - at >= most or _STRAY.search(data, at):
                raise _RefusedError(400, "malformed chunked encoding")
            return at
        if self._trailers is not None:
            self._trailers += end - at
            if data.startswith(b"\r\n", at):
                self._chunked = False
            elif not _TRAILER.fullmatch(data, at, end):
                raise _RefusedError(400, "malformed trailer")
            return end
        line = _CHUNK_LINE.fullmatch(data, at, end)
        if line is None:
            raise _RefusedError(400, "malformed chunked encoding")
        self._extensions += len(line[2])
        if self._extensions > MAX_EXTENSION_BYTES:
            raise _RefusedError(400, "chunked encoding contains too much non-data")
        size = int(line[1], 16)
        if size:
            self._left = size + 2
        else:
            self._trailers = 0
        return end


def _check_target(method: bytes, target: bytes, host: bytes | None) -> None:
    """The four forms of RFC 9112 section 3.2; a path after CONNECT too, as Go's server reads it."""
    if host is not None and not _HOST.fullmatch(host):
        raise _RefusedError(400, "malformed Host header")
    if b"#" in target:
        raise _RefusedError(400, "malformed request target")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return
    if method == b"CONNECT":
        authority = _HOST.fullmatch(target)
        if authority is None or not target.rpartition(b":")[2].isdigit():
            raise _RefusedError(400, "malformed request target")
        return
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or not absolute[1]:
        raise _RefusedError(400, "malformed request target")
    # A proxy may have judged by one of the two.
    if host is not None and absolute[1].lower() != host.lower():
        raise _RefusedError(400, "the request target and the Host header differ")
