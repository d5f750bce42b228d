"""A ledger that ends with its process: for ``up --store memory:`` and for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from kubevouch.ledger.entries import Entry, Query, Recorded, encode, matches, terms_of, terms_wanted

MOST_BYTES = 64 << 20
"""Of entries as they would be written; beyond it the oldest are forgotten. Some 50,000 certificates."""


class MemoryLedger:
    """See ``ledger.interface.Ledger``. It proves nothing: there is nothing to prove to who comes later."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._first = 0
        self._entries: deque[tuple[Entry, int]] = deque()
        self._by_term: dict[str, deque[int]] = {}

    async def append(self, *entries: Entry) -> int:
        sizes = [len(encode(entry)) for entry in entries]
        for entry, size in zip(entries, sizes, strict=True):
            for term in terms_of(entry):
                self._by_term.setdefault(term, deque()).append(self._first + len(self._entries))
            self._entries.append((entry, size))
            self._bytes += size
        while self._bytes > self._most_bytes:
            self._forget()
        return self._first + len(self._entries) - 1

    async def find(self, query: Query) -> Sequence[Recorded]:
        sequences: Sequence[int] = range(self._first, self._first + len(self._entries))
        for term in terms_wanted(query):
            sequences = min(sequences, self._by_term.get(term, ()), key=len)
        order: Iterable[int] = reversed(sequences) if query.newest_first else sequences
        matching = (
            Recorded(at, entry) for at in order if matches(query, at, entry := self._entries[at - self._first][0])
        )
        return list(islice(matching, query.limit))

    def _forget(self) -> None:
        entry, size = self._entries.popleft()
        for term in terms_of(entry):
            known = self._by_term[term]
            known.popleft()
            if not known:
                del self._by_term[term]
        self._bytes -= size
        self._first += 1
