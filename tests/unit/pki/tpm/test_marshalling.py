from __future__ import annotations

import pytest

from kubevouch.pki.errors import StructureError
from kubevouch.pki.tpm.marshalling import Reader, sized, u16, u32, unsized


def test_numbers_are_in_the_order_of_their_maker() -> None:
    assert Reader(b"\x01\x02\x03\x04", "x").integer(4) == 0x01020304
    assert Reader(b"\x01\x02\x03\x04", "x", "little").integer(4) == 0x04030201


def test_a_size_that_is_only_told_is_not_taken() -> None:
    with pytest.raises(StructureError, match=r"^x: got 2 bytes at 2, expected 65535$"):
        Reader(b"\xff\xff\x00\x00", "x").sized(1 << 16)
    with pytest.raises(StructureError, match="got a size of 5 at 0, expected at most 4"):
        Reader(sized(b"12345"), "x").sized(4)


def test_what_is_left_over_is_refused() -> None:
    assert unsized(sized(b"abc"), "x", 3) == b"abc"
    with pytest.raises(StructureError, match="1 bytes behind the end"):
        unsized(sized(b"abc") + b"d", "x", 3)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_number_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(StructureError):
        Reader(b"\0" * (size - 1), "x").integer(size)


def test_numbers_are_written_big_end_first() -> None:
    assert u16(0x1234) + u32(0x12345678) == bytes.fromhex("123412345678")
