"""The comparison of server and grammar finds what it is there to find."""

from __future__ import annotations

import pytest

from http_differential import SEEDS, DifferenceError, compare
from kubevouch.server.edge.http_framing import RequestFraming

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
DIFFERENT = [
    SEEDS[2],  # trailers
    b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
    GET + b"\0",
    b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + GET,
]


def nothing_checked(_framing: RequestFraming, data: bytes, _room: int) -> tuple[list[bytes], list[int]]:
    return ([data] if data else []), [1] * data.count(b"\r\n\r\n")


@pytest.mark.parametrize("data", DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_the_parser_alone_reads_otherwise_is_a_difference(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(data)
    monkeypatch.setattr(RequestFraming, "receive", nothing_checked)
    with pytest.raises(DifferenceError):
        compare(data)
