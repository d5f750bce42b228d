"""SSH's own encoding."""

from __future__ import annotations

import pytest

from kubevouch.pki.errors import SSHError
from kubevouch.pki.ssh import wire
from kubevouch.pki.ssh.wire import Reader, string


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 256, 1 << 255, (1 << 256) - 1])
def test_numbers_are_read_as_they_are_written(number: int) -> None:
    reader = Reader(string(wire.unsigned(number)))
    assert reader.unsigned() == number
    reader.end()


@pytest.mark.parametrize("octets", [b"\x80", b"\xff\xff", b"\0", b"\0\x01", b"\0\0\x80"])
def test_a_number_is_written_in_one_way_only(octets: bytes) -> None:
    with pytest.raises(SSHError, match="negative or has zeros"):
        Reader(string(octets)).unsigned()


def test_nothing_is_read_behind_the_end() -> None:
    reader = Reader(b"\0\0\0\x02a", longest=3)
    with pytest.raises(SSHError, match="got 1 bytes where 2 are said to be"):
        reader.string()
    with pytest.raises(SSHError, match="expected at most 3"):
        Reader(string(b"four"), longest=3).string()
    with pytest.raises(SSHError, match="bytes behind the end"):
        Reader(b"x").end()
    with pytest.raises(SSHError, match="no UTF-8"):
        Reader(string(b"\xff")).text()


@pytest.mark.parametrize("text", ["!", "AAA", "AA A=", "é"])
def test_base64_is_strict(text: str) -> None:
    with pytest.raises(SSHError) as caught:
        wire.base64_octets(text)
    assert caught.value.step == "structure"
