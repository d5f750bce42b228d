"""A ledger that ends with its process: for ``up --store memory:`` and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from kubevouch.ledger.entries import Entry, Query, Recorded, encode, matches, terms_of, terms_wanted


class MemoryLedger:
    """See ``ledger.interface.Ledger``."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_term: dict[str, list[int]] = {}

    async def append(self, *entries: Entry) -> int:
        for entry in entries:
            encode(entry)
        for entry in entries:
            for term in terms_of(entry):
                self._by_term.setdefault(term, []).append(len(self._entries))
            self._entries.append(entry)
        return len(self._entries) - 1

    async def find(self, query: Query) -> Sequence[Recorded]:
        wanted = terms_wanted(query)
        rarest: Sequence[int] = range(len(self._entries))
        for term in wanted:
            rarest = min(rarest, self._by_term.get(term, ()), key=len)
        order: Iterable[int] = reversed(rarest) if query.newest_first else rarest
        matching = (Recorded(at, self._entries[at]) for at in order if matches(query, at, self._entries[at]))
        return list(islice(matching, query.limit))
