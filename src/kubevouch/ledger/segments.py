"""A ledger as pieces that objects of a cluster can hold: what is in each, and that they make one chain. No I/O.

The entries are lines of JSON, each as ``entries.encode`` made it. A ``header`` says of which ledger a segment is, its
number, how many entries stand before it, and the hash (``chain.link``) that its first entry is tied to. So a segment
that is changed, taken out, put elsewhere or written twice does not fit those behind it, and a head that was noted in
another object does not fit a chain that was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubevouch.ledger import chain, entries, proofs
from kubevouch.ledger.entries import Entry
from kubevouch.ledger.interface import LedgerDamaged

PREFIX = "segment-"
HEADER, ENTRIES = "header", "entries"
TARGET_BYTES = 32 << 10
"""Of entries: a segment that has as many is closed. Each append writes the open one again, half of this on average."""
MOST_APPEND_BYTES = 900 << 10
"""Of entries that are appended together. With an open segment they fit into an object of 1 MiB (Kubernetes' bound)."""
MOST_BYTES = 1 << 20
MOST_SEGMENTS = 2048
"""64 MiB: a thirtieth of the 2 GiB that an etcd holds by default, and 190 MiB in the memory of each who writes it."""

_NAME = re.compile(rf"{PREFIX}([0-9]{{8}})", re.ASCII)
_LINK = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_HEADER_BYTES = 1024


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands before the entries of a segment.

    Args:
        origin: which ledger it is of.
        number: of the segment, from 0 on.
        first: the sequence of its first entry.
        previous: the hash of the entry before, in hexadecimal digits.
    """

    origin: str
    number: int
    first: int
    previous: str


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a ledger has reached, for who looks later: ``link`` is the newest entry's hash, in hexadecimal digits."""

    origin: str
    size: int
    link: str


class Position(msgspec.Struct, frozen=True):
    """Where a chain stands.

    Args:
        origin: empty before there is a ledger.
        number: of the segment that is to be read or made next; while one is open, its own.
        size: entries so far.
        link: the hash of the newest.
        within: how many of the entries are in the open segment ``number``.
        start: the hash that the first of these is tied to.
    """

    origin: str = ""
    number: int = 0
    size: int = 0
    link: bytes = b""
    within: int = 0
    start: bytes = b""

    @property
    def first(self) -> int:
        """The sequence of the first entry of the segment ``number``."""
        return self.size - self.within

    @property
    def head(self) -> Head:
        return Head(self.origin, self.size, self.link.hex())


BEFORE_ALL = Position()


class Added(msgspec.Struct, frozen=True):
    """An entry that a segment has behind what was known: read, and as it was written. ``link`` is its hash."""

    entry: Entry
    body: bytes
    link: bytes


def name_of(number: int) -> str:
    """Of the object that holds the segment."""
    return f"{PREFIX}{number:08}"


def number_of(name: str) -> int | None:
    """Of the segment in an object of this name; None for an object that holds none."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def begun(origin: str) -> Position:
    """Before the first entry of a ledger that is made."""
    return Position(origin, link=chain.beginning(origin))


def written(position: Position, text: str, bodies: Sequence[bytes]) -> tuple[dict[str, str], bool, Position]:
    """What the segment at ``position`` holds with ``bodies`` behind ``text``, its entries so far.

    Returns:
        The object's data, whether it is full, and where the chain then stands.
    """
    start = position.start if position.within else position.link
    link = position.link
    for body in bodies:
        link = chain.link(link, proofs.leaf_hash(body))
    grown = text + "".join(f"{body.decode()}\n" for body in bodies)
    header = Header(position.origin, position.number, position.first, start.hex())
    data = {HEADER: msgspec.json.encode(header).decode(), ENTRIES: grown}
    is_full = len(grown.encode()) >= TARGET_BYTES
    within = position.within + len(bodies)
    return data, is_full, _behind(position, position.first, within, link, start, is_closed=is_full)


def followed(position: Position, data: Mapping[str, str], *, is_closed: bool) -> tuple[list[Added], Position]:
    """What a segment adds to the chain that stands at ``position``, and where it stands then.

    Args:
        data: of the object named ``name_of(position.number)``.
        is_closed: nobody can change it any more.

    Raises:
        LedgerDamaged: it is no segment, or not the one that belongs there, or not what it was when it was seen last.
    """
    name = name_of(position.number)
    header, bodies = _parsed(name, data)
    if not position.origin:
        position = begun(header.origin)
    start = position.start if position.within else position.link
    expected = Header(position.origin, position.number, position.first, start.hex())
    if header != expected:
        raise damaged(f"{name} that says {_told(header)}", _told(expected))
    if len(bodies) < position.within:
        raise damaged(f"{name} with {len(bodies)} entries", f"at least the {position.within} that were seen in it")
    link, found = start, list[Added]()
    for at, body in enumerate(bodies, 1):
        link = chain.link(link, proofs.leaf_hash(body))
        if at == position.within and link != position.link:
            raise damaged(f"{name} with other entries than were seen in it", "what was written")
        if at > position.within:
            found.append(Added(_entry(name, position.first + at - 1, body), body, link))
    return found, _behind(position, position.first, len(bodies), link, start, is_closed=is_closed)


def _behind(position: Position, first: int, within: int, link: bytes, start: bytes, *, is_closed: bool) -> Position:
    if is_closed:
        return Position(position.origin, position.number + 1, first + within, link)
    return Position(position.origin, position.number, first + within, link, within, start)


def parse_head(data: Mapping[str, str]) -> Head:
    """Raises LedgerDamaged."""
    try:
        head = msgspec.convert(
            {"origin": data.get("origin", ""), "size": data.get("size", ""), "link": data.get("link", "")},
            Head,
            strict=False,
        )
    except msgspec.ValidationError as err:
        raise damaged("a noted head that is none", "origin, size and link") from err
    if head.size < 0 or not _LINK.fullmatch(head.link) or not head.origin:
        raise damaged("a noted head that is none", "origin, size and link")
    return head


def lines_of(text: str) -> list[bytes]:
    """The entries in a segment's text."""
    return [line.encode() for line in text.split("\n")[:-1]]


def damaged(got: str, expected: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"the ledger in the cluster: got {got}, expected {expected}; nothing is signed. Restore the namespace's"
        " ConfigMaps from a backup, or keep them for whoever investigates and see docs/howto/ledger.md"
    )


def _told(header: Header) -> str:
    begins = f"entry {header.first} on, behind {header.previous[:12]}"
    return f"it is number {header.number} of {header.origin[:80]} from {begins}"


def _parsed(name: str, data: Mapping[str, str]) -> tuple[Header, list[bytes]]:
    if set(data) != {HEADER, ENTRIES}:
        raise damaged(f"{name} with {_short(sorted(data))}", f"the keys {ENTRIES} and {HEADER}")
    text, header_text = data[ENTRIES], data[HEADER]
    if len(header_text) > _MOST_HEADER_BYTES or len(text) > MOST_BYTES:
        raise damaged(f"{name} with {len(header_text) + len(text)} characters", f"at most {MOST_BYTES}")
    try:
        header = msgspec.json.decode(header_text, type=Header)
    except (msgspec.MsgspecError, UnicodeEncodeError) as err:
        raise damaged(
            f"{name} with a header that cannot be read", "JSON of origin, number, first and previous"
        ) from err
    if not _LINK.fullmatch(header.previous) or not header.origin:
        raise damaged(f"{name} with a header that cannot be meant", "an origin and a hash")
    if not text.endswith("\n"):
        raise damaged(f"{name} that ends within an entry", "whole lines")
    try:
        return header, lines_of(text)
    except UnicodeEncodeError as err:
        raise damaged(f"{name} with text that is no Unicode", "JSON in lines") from err


def _entry(name: str, sequence: int, body: bytes) -> Entry:
    if len(body) > entries.MAX_ENTRY_BYTES:
        raise damaged(f"{name} with an entry {sequence} of {len(body)} bytes", f"at most {entries.MAX_ENTRY_BYTES}")
    try:
        return entries.decode(body)
    except msgspec.MsgspecError as err:
        raise damaged(f"{name} whose entry {sequence} cannot be read ({err})", "an entry in JSON") from err


def _short(keys: Iterator[str] | Sequence[str]) -> str:
    text = ", ".join(keys) or "no keys"
    return text if len(text) <= 80 else f"{text[:80]}…"
