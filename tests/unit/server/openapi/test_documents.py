"""server/openapi/documents.py: what is kept of documents that were made."""

from __future__ import annotations

import random
from functools import partial

from kubevouch.server.openapi.documents import Kept


def body(number: int) -> bytes:
    """A kilobyte that does not get shorter."""
    return random.Random(number).randbytes(1024)


def test_a_document_is_made_once_while_there_is_room() -> None:
    kept, made = Kept(2200), []

    def get(number: int) -> bytes:
        def make() -> bytes:
            made.append(number)
            return body(number)

        return kept.get(("v3", str(number)), make)

    assert [get(number) for number in (1, 2, 1, 3)] == [body(number) for number in (1, 2, 1, 3)]
    assert made == [1, 2, 3]
    # The second one had waited longest.
    assert [get(number) for number in (1, 3, 2)] == [body(number) for number in (1, 3, 2)]
    assert made == [1, 2, 3, 2]


def test_what_is_larger_than_the_room_is_made_each_time_and_drives_nothing_out() -> None:
    kept = Kept(1500)
    kept.get(("v3", "small"), lambda: body(1))
    large = [body(number) + body(number + 2) for number in (2, 3)]
    for each in large:
        assert kept.get(("v3", "large"), partial(bytes, each)) == each
    assert kept.get(("v3", "small"), bytes) == body(1)
