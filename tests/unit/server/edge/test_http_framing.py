"""The framing alone: no socket, no parser behind it."""

from __future__ import annotations

import pytest

from kubevouch.server.edge.http_framing import (
    MAX_CHUNK_LINE_BYTES,
    MAX_EXTENSION_BYTES,
    MAX_HEADERS,
    MAX_TRAILER_BYTES,
    Refusal,
    RequestFraming,
)

GET = b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
ENOUGH = 1 << 20


def passed(said: bytes, piece: int = 0, max_head: int = ENOUGH) -> tuple[bytes, Refusal | None]:
    """What passes of bytes that come at once, or in pieces of so many."""
    framing, found = RequestFraming(max_head), b""
    step = piece or len(said)
    for at in range(0, len(said), step):
        found += b"".join(framing.receive(said[at : at + step], 1000)[0])
    return found, framing.refusal


def status(said: bytes, max_head: int = ENOUGH) -> int:
    """Also that the pieces in which it comes make no difference."""
    whole, bit_by_bit = (
        0 if refusal is None else refusal.status for _, refusal in (passed(said, piece, max_head) for piece in (0, 1))
    )
    assert whole == bit_by_bit
    return whole


def get(line: bytes = b"GET / HTTP/1.1", *fields: bytes) -> bytes:
    return b"".join(each + b"\r\n" for each in (line, b"Host: h", *fields)) + b"\r\n"


def test_heads_pass_as_they_came_and_whole() -> None:
    assert passed(GET * 3) == (GET * 3, None)
    framing = RequestFraming()
    assert framing.receive(GET[:-1], 9) == ([], [])
    assert framing.held == len(GET) - 1
    assert framing.receive(b"\n" + GET, 9) == ([GET, GET], [len(GET)] * 2)
    assert framing.held == 0


def test_what_is_behind_as_many_requests_as_there_is_room_for_waits() -> None:
    framing = RequestFraming()
    assert framing.receive(GET * 3, 1) == ([GET], [len(GET)])
    assert framing.held == 2 * len(GET)
    assert framing.receive(b"", 0) == ([], [])
    assert framing.receive(b"", 2)[1] == [len(GET)] * 2


def test_a_body_passes_by_its_length_and_is_no_request() -> None:
    said = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(GET) + GET
    for piece in (0, 1, 7):
        assert passed(said + GET, piece) == (said + GET, None)
    framing = RequestFraming()
    assert len(framing.receive(said, 9)[1]) == 1
    assert not framing.in_body


def test_chunks_come_merged_without_extensions_and_trailers() -> None:
    said = CHUNKED + b'1\r\na\r\n02 ; x = "\\"y" ;z\r\nbc\r\n00\r\nX: y\r\nZ:\r\n\r\n' + GET
    assert passed(said) == (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n" + GET, None)
    bit_by_bit, refusal = passed(said, 1)
    assert refusal is None
    assert bit_by_bit == CHUNKED + b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n" + GET


def test_one_empty_line_before_a_request_is_forgiven() -> None:
    assert passed(b"\r\n" + GET) == (GET, None)
    assert passed(b"\r\n" + GET, 1) == (GET, None)
    assert status(b"\r\n\r\n" + GET) == 400
    assert status(b"\n" + GET) == 400


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (get(b"GET  / HTTP/1.1"), 400),
        (get(b"GET /  HTTP/1.1"), 400),
        (get(b"GET / HTTP/1.1 "), 400),
        (get(b" GET / HTTP/1.1"), 400),
        (get(b"GET\t/ HTTP/1.1"), 400),
        (get(b"GET / http/1.1"), 400),
        (get(b"GET / HTTP/1.10"), 400),
        (get(b"GET /"), 400),
        (get(b"GET / HTTP/2.0"), 505),
        (get(b"GET / HTTP/0.9"), 505),
        (get(b"GET / HTTP/1.2"), 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (get(b"GET /#a HTTP/1.1"), 400),
        (get(b"GET /\xff HTTP/1.1"), 400),
        (get(b"GET /\0 HTTP/1.1"), 400),
        (get(b"GET * HTTP/1.1"), 400),
        (get(b"OPTIONS * HTTP/1.1"), 0),
        (get(b"GET h:443 HTTP/1.1"), 400),
        (get(b"CONNECT h:443 HTTP/1.1"), 0),
        (get(b"CONNECT h HTTP/1.1"), 400),
        (get(b"CONNECT /api HTTP/1.1"), 0),
        (get(b"GET https://h/version HTTP/1.1"), 0),
        (get(b"GET https://H?a HTTP/1.1"), 0),
        (get(b"GET https://other/version HTTP/1.1"), 400),
        (get(b"GET https://u@h/version HTTP/1.1"), 400),
        (get(b"GET https:///version HTTP/1.1"), 400),
        (get(b"GET ftp://h/ HTTP/1.1"), 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 0),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 0),
        (b"GET / HTTP/1.1\r\nHost: [::1]:6443\r\n\r\n", 0),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400),
        (get(b"GET / HTTP/1.1", b"hOST: h"), 400),
        (get(b"GET / HTTP/1.1", b"A : b"), 400),
        (get(b"GET / HTTP/1.1", b": b"), 400),
        (get(b"GET / HTTP/1.1", b"A"), 400),
        (get(b"GET / HTTP/1.1", b" folded: b"), 400),
        (get(b"GET / HTTP/1.1", b"A: b", b"\tc"), 400),
        (get(b"GET / HTTP/1.1", b"A: b\0c"), 400),
        (get(b"GET / HTTP/1.1", b"A: b\x7fc"), 400),
        (get(b"GET / HTTP/1.1", b"A: b\rB: c"), 400),
        (get(b"GET / HTTP/1.1", b"A: b\nB: c"), 400),
        (get(b"GET / HTTP/1.1", b"A: b\r\r\nB: c"), 400),
        (get(b"GET / HTTP/1.1", b"A(: b"), 400),
        (get(b"GET / HTTP/1.1", b"A:b\t", b"A:", b"A: \xff"), 0),
        (GET.replace(b"\r\n", b"\n"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: 1", b"Content-Length: 1"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: 1, 1"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: +1"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: 0x1"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length:"), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: " + b"9" * 19), 400),
        (get(b"POST / HTTP/1.1", b"Content-Length: 1", b"Transfer-Encoding: chunked"), 400),
        (get(b"POST / HTTP/1.0", b"Transfer-Encoding: chunked"), 400),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: gzip, chunked"), 501),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: chunked, gzip"), 501),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: identity"), 501),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: \x0bchunked"), 400),
        (get(b"POST / HTTP/1.1", b"Transfer-Encoding: xchunked"), 501),
        (get(b"POST / HTTP/1.1", b"tRANSFER-eNCODING: CHUNKED "), 0),
    ],
)  # fmt: skip
def test_heads(said: bytes, code: int) -> None:
    assert status(said) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"0\r\n\r\n", 0),
        (b"F\r\n0123456789abcde\r\n0\r\n\r\n", 0),
        (b"1\r\nab\r\n", 400),
        (b"1\r\na\n", 400),
        (b"1\na\r\n", 400),
        (b"1 \r\na\r\n", 400),
        (b" 1\r\na\r\n", 400),
        (b"+1\r\na\r\n", 400),
        (b"-1\r\n", 400),
        (b"0x1\r\na\r\n", 400),
        (b"1_0\r\n", 400),
        (b"\r\n", 400),
        (b";a\r\n", 400),
        (b"g\r\n", 400),
        (b"1" * 16 + b"\r\n", 400),
        (b"1;a=b\nc\r\na\r\n0\r\n\r\n", 400),
        (b"1;a=\r\na\r\n", 400),
        (b'1;a="b\r\na\r\n', 400),
        (b"1;" + b"a" * MAX_CHUNK_LINE_BYTES + b"\r\na\r\n", 400),
        (b"1;" + b"a" * 100_000, 400),
        ((b"1;" + b"a" * 200 + b"\r\na\r\n") * (MAX_EXTENSION_BYTES // 200 + 1), 400),
        (b"0\r\nA: b\r\n\r\n", 0),
        (b"0\r\nA : b\r\n\r\n", 400),
        (b"0\r\nA\r\n\r\n", 400),
        (b"0\r\n b\r\n\r\n", 400),
        (b"0\r\nA: b\n\r\n", 400),
        (b"0\r\n" + b"A: b\r\n" * (MAX_TRAILER_BYTES // 6 + 1), 400),
    ],
)
def test_chunks(body: bytes, code: int) -> None:
    assert status(CHUNKED + body) == code
    if code:
        refusal = passed(CHUNKED + body)[1]
        assert refusal is not None
        assert refusal.in_body


def test_a_head_has_so_many_bytes_and_fields() -> None:
    assert status(GET, max_head=len(GET)) == 0
    assert status(GET, max_head=len(GET) - 1) == 431
    assert status(GET[:-1], max_head=len(GET) - 2) == 431
    fields = [b"A: b"] * (MAX_HEADERS - 1)
    assert status(get(b"GET / HTTP/1.1", *fields)) == 0
    assert status(get(b"GET / HTTP/1.1", *fields, b"A: b")) == 431


def test_nothing_passes_behind_a_refusal() -> None:
    framing = RequestFraming()
    assert framing.receive(GET + b"\n" + GET, 9) == ([GET], [len(GET)])
    assert framing.refusal == Refusal(400, "malformed HTTP request")
    assert framing.receive(GET, 9) == ([], [])
    assert framing.held == 0
