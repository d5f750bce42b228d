from __future__ import annotations

import pytest

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.pem import Block

ONE = b"-----BEGIN A-----\neHl6\n-----END A-----\n"
TWO = b"-----BEGIN B-----\neHl6\n-----END B-----\n"


def types(text: bytes) -> list[str]:
    return [block.type for block in pem.blocks(text)]


def test_the_first_block_is_found_between_text() -> None:
    assert pem.first_block(b"hello\n" + ONE + b"and\n" + TWO) == Block("A", b"xyz")


def test_blocks_come_in_order() -> None:
    assert types(TWO + b"text" + b"\n" + ONE) == ["B", "A"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no block",
        b"-----BEGIN A-----\neHl6\n",
        b"x -----BEGIN A-----\neHl6\n-----END A-----\n",
        b"-----BEGIN A-----\neHl6\n-----END B-----\n",
        b"-----BEGIN A-----\neHl6\n-----END A----\n",
        b"-----BEGIN A-----\neHl6\n-----END A----- x\n",
        b"-----BEGIN A----\neHl6\n-----END A-----\n",
        b"-----BEGIN A-----\neH*6\n-----END A-----\n",
        b"-----BEGIN A-----\neHl\n-----END A-----\n",
        b"-----BEGIN A-----\neHl6====\n-----END A-----\n",
        b"-----BEGIN A-----\neA=A\n-----END A-----\n",
        b"-----BEGIN A-----\nk: v\n-----END A-----\n",
        b"-----BEGIN A:-----\nk: v\n-----END A:-----\n",
        b"\n-----END A",
    ],
)
def test_what_is_no_block(text: bytes) -> None:
    assert pem.first_block(text) is None


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        ONE.rstrip(),
        ONE.replace(b"\n", b"\r\n"),
        b"\n\n" + ONE,
        ONE.replace(b"eHl6", b" e H\tl\n6 "),
        ONE.replace(b"A-----\neH", b"A-----  \neH"),
        b"-----BEGIN A-----\n-----BEGIN A-----\neHl6\n-----END A-----",
    ],
)
def test_what_is_one_block(text: bytes) -> None:
    assert pem.first_block(text) == Block("A", b"xyz")


def test_a_malformed_block_is_passed_over() -> None:
    assert types(ONE.replace(b"eHl6", b"****") + TWO) == ["B"]


def test_behind_a_malformed_end_a_begin_needs_no_newline() -> None:
    assert types(b"\n-----END -----BEGIN A-----\neHl6\n-----END A-----\n") == ["A"]


def test_headers() -> None:
    text = b"-----BEGIN A-----\nProc-Type : 4,x\nk:\xa0v\n\neHl6\n-----END A-----\n"
    assert pem.first_block(text) == Block("A", b"xyz", {"Proc-Type": "4,x", "k": "\udca0v"})


def test_headers_up_to_the_end_of_the_text_are_no_block() -> None:
    assert pem.first_block(b"-----BEGIN A:-----\n-----END A:-----") is None


def test_headers_that_swallow_the_end_line_end_the_scan() -> None:
    assert types(b"-----BEGIN A-----\na: b\n-----END A-----:\n-----END A-----\n" + TWO) == []


def test_empty_block() -> None:
    assert pem.first_block(b"-----BEGIN A-----\n-----END A-----\n") == Block("A", b"")
    assert pem.first_block(b"-----BEGIN A-----\n\n-----END A-----\n") == Block("A", b"")


def test_a_label_that_is_not_utf8_is_kept() -> None:
    block = pem.first_block(b"-----BEGIN \xff-----\n-----END \xff-----\n")
    assert block is not None
    assert block.type.encode("utf-8", "surrogateescape") == b"\xff"


def test_the_input_is_bounded() -> None:
    with pytest.raises(ParseError, match="40 bytes, at most 39"):
        pem.first_block(b"x" * 40, limit=39)
    assert pem.first_block(ONE, limit=len(ONE)) is not None


def test_encode() -> None:
    text = pem.encode("A", b"x" * 60, {"b": "2", "Proc-Type": "4", "a": "1"})
    assert text.decode().splitlines()[:6] == [
        "-----BEGIN A-----", "Proc-Type: 4", "a: 1", "b: 2", "", "eHh4" * 16,
    ]  # fmt: skip
    assert pem.first_block(text) == Block("A", b"x" * 60, {"Proc-Type": "4", "a": "1", "b": "2"})


def test_encode_refuses_a_colon_in_a_header_key() -> None:
    with pytest.raises(ValueError, match="colon"):
        pem.encode("A", b"", {"a:b": "c"})
