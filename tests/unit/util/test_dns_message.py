"""util/dns_message.py: questions and answers as bytes, from whoever can send a packet."""

from __future__ import annotations

import struct

import pytest

from kubevouch.util import dns_message
from kubevouch.util.dns_message import AAAA, CNAME, PTR, A, DNSMessageError, answers, question, reverse_name

Record = tuple[str, int, bytes]


def encoded(name: str) -> bytes:
    return b"".join(bytes((len(label),)) + label.encode() for label in name.split(".") if label) + b"\0"


def reply(
    *records: Record, number: int = 7, name: str = "n1.example.com", kind: int = A, flags: int = 0x8180, group: int = 1
) -> bytes:
    octets = struct.pack("!HHHHHH", number, flags, 1, len(records), 0, 0) + encoded(name) + struct.pack("!HH", kind, 1)
    for owner, found, value in records:
        octets += encoded(owner) + struct.pack("!HHIH", found, group, 60, len(value)) + value
    return octets


NAME, FOUR = "n1.example.com", bytes((10, 0, 0, 9))


def test_a_question() -> None:
    assert question(7, "N1.example.com.", A)[12:] == encoded("N1.example.com") + b"\0\1\0\1"
    for name in ("", "a..b", "a" * 64, ".".join(["a" * 60] * 5)):
        with pytest.raises(DNSMessageError):
            question(7, name, A)


def test_reverse_names() -> None:
    assert reverse_name("10.0.0.9") == "9.0.0.10.in-addr.arpa"
    assert reverse_name("fd00::1").endswith(".d.f.ip6.arpa")


def test_addresses_of_a_name() -> None:
    assert answers(reply((NAME, A, FOUR), ("N1.EXAMPLE.com", A, bytes(4))), 7, NAME, A) == {"10.0.0.9", "0.0.0.0"}
    six = bytes.fromhex("fd000000000000000000000000000001")
    assert answers(reply((NAME, AAAA, six), kind=AAAA), 7, NAME, AAAA) == {"fd00::1"}
    assert answers(reply(), 7, NAME, A) == frozenset()
    assert answers(reply(flags=0x8183), 7, NAME, A) == frozenset()


def test_names_of_an_address() -> None:
    owner = reverse_name("10.0.0.9")
    assert answers(reply((owner, PTR, encoded("N1.Example.com")), name=owner, kind=PTR), 7, owner, PTR) == {NAME}


def test_aliases_are_followed_and_nothing_else_counts() -> None:
    chain = reply((NAME, CNAME, encoded("b.example")), ("b.example", A, FOUR), ("other.example", A, bytes(4)))
    assert answers(chain, 7, NAME, A) == {"10.0.0.9"}
    ring = reply((NAME, CNAME, encoded("b.example")), ("b.example", CNAME, encoded(NAME)))
    with pytest.raises(DNSMessageError, match="too many aliases"):
        answers(ring, 7, NAME, A)


def test_names_that_point_back() -> None:
    # The owner is a pointer to the question's name.
    whole = reply() + b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 60, 4) + FOUR
    whole = whole[:6] + b"\0\1" + whole[8:]
    assert answers(whole, 7, NAME, A) == {"10.0.0.9"}


GOOD = reply((NAME, A, FOUR))
POINTER = len(reply())
WRONG = {
    "nothing": b"",
    "short": GOOD[:10],
    "cut": GOOD[:-1],
    "another number": reply((NAME, A, FOUR), number=8),
    "a question": reply((NAME, A, FOUR), flags=0x0100),
    "truncated": reply((NAME, A, FOUR), flags=0x8380),
    "refused": reply(flags=0x8185),
    "another name": reply((NAME, A, FOUR), name="n2.example.com"),
    "another kind": reply((NAME, A, FOUR), kind=AAAA),
    "no question": GOOD[:4] + b"\0\0" + GOOD[6:],
    "too many records": GOOD[:6] + b"\xff\xff" + GOOD[8:],
    "a name that leads to itself": reply()[:6] + b"\0\1" + reply()[8:] + bytes((0xC0, POINTER)) + bytes(14),
    "a name that leads forward": reply()[:6] + b"\0\1" + reply()[8:] + b"\xc0\xff" + bytes(14),
    "a label of another kind": reply()[:6] + b"\0\1" + reply()[8:] + b"\x80" + bytes(14),
    "a label with a dot": reply((NAME, CNAME, b"\3a.b\0")),
    "a label that is no ASCII": reply((NAME, CNAME, b"\2\xc3\xa9\0")),
}


@pytest.mark.parametrize("message", WRONG.values(), ids=WRONG)
def test_what_is_no_answer(message: bytes) -> None:
    with pytest.raises(DNSMessageError):
        answers(message, 7, NAME, A)


def test_records_of_a_wrong_length_or_class_are_none() -> None:
    assert answers(reply((NAME, A, b"123")), 7, NAME, A) == frozenset()
    assert answers(reply((NAME, A, FOUR), group=3), 7, NAME, A) == frozenset()


def test_no_message_is_followed_for_long() -> None:
    """Each name is a chain of pointers as long as it may be."""
    chain = b"".join(bytes((1, 97, 0xC0, max(0, 12 + 4 * index - 4))) for index in range(40))
    message = reply()[:6] + b"\0\x40" + reply()[8:] + chain * 100
    with pytest.raises(DNSMessageError):
        dns_message.answers(message, 7, NAME, A)
