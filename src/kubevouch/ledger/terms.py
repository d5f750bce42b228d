"""Terms as numbers: what a segment's index consists of. No I/O.

A term is 8 bytes of a hash; two that collide cost a look at an entry that is not meant, for what is found is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from kubevouch.ledger.schema import BUCKETS

TERM = 8
_PLACE = TERM + 2


def number_of(term: str) -> bytes:
    return hashlib.blake2b(term.encode(errors="surrogatepass"), digest_size=TERM).digest()


def packed(terms: Iterable[str]) -> bytes:
    """Those of one entry."""
    return b"".join(sorted(map(number_of, terms)))


def has(terms: bytes, number: bytes) -> bool:
    """Whether ``number`` is in what :func:`packed` has made."""
    at = terms.find(number)
    while at % TERM and at >= 0:
        at = terms.find(number, at + 1)
    return at >= 0


def bucket_of(number: bytes) -> int:
    return number[0]


def buckets(terms: Sequence[bytes]) -> list[bytes]:
    """The places of every bucket of a segment whose entries have ``terms``, in their order."""
    places: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    for offset, row in enumerate(terms):
        place = offset.to_bytes(2, "big")
        for at in range(0, len(row), TERM):
            number = row[at : at + TERM]
            places[number[0]].append(number + place)
    return [b"".join(sorted(each)) for each in places]


def numbers(places: bytes) -> set[bytes]:
    """The terms of a bucket."""
    return {places[at : at + TERM] for at in range(0, len(places), _PLACE)}


def offsets(places: bytes, number: bytes) -> list[int]:
    """Which entries of a segment have the term, in their order; ``places`` are those of its bucket."""
    found = []
    at = places.find(number)
    while at >= 0:
        if at % _PLACE:
            at = places.find(number, at + 1)
            continue
        found.append(int.from_bytes(places[at + TERM : at + _PLACE], "big"))
        at = places.find(number, at + _PLACE)
    return found
