"""ledger/interface.py: what lets a request be signed, and what was issued for it."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import NOW
from kubevouch.ledger.entries import Entry, Query
from kubevouch.ledger.interface import CLOCKS_DIFFER, allowed, signed_before
from kubevouch.ledger.memory import MemoryLedger


def entry(kind: str, uid: str = "u", digest: str = "d") -> Entry:
    return Entry(kind=kind, at=NOW, uid=uid, digest=digest)


@pytest.mark.parametrize(
    ("kinds", "is_allowed"),
    [
        ([], False), (["approved"], True), (["intended"], True), (["denied"], False), (["approved", "denied"], False),
        (["denied", "approved"], True), (["issued"], False), (["approved", "issued"], True),
    ],
)  # fmt: skip
@async_test
async def test_the_newest_decision_counts(kinds: list[str], is_allowed: bool) -> None:
    ledger = MemoryLedger()
    await ledger.append(*map(entry, kinds))
    assert (await allowed(ledger, "u", "d") is not None) is is_allowed
    assert await allowed(ledger, "u", "another") is None
    assert await allowed(ledger, "", "d") is None


@async_test
async def test_what_was_done_for_exactly_this_request() -> None:
    ledger = MemoryLedger()
    await ledger.append(
        entry("approved"), entry("intended"), entry("issued"), entry("issued", digest="e"), entry("issued", uid="v")
    )
    kinds = [each.kind for each in await signed_before(ledger, "u", "d")]
    assert kinds == ["issued", "intended"]
    assert await signed_before(ledger, "", "d") == ()
    # A clock may have been set back since the request was made.
    assert len(await signed_before(ledger, "u", "d", NOW + 2 * CLOCKS_DIFFER)) == 2


@async_test
async def test_pages() -> None:
    ledger = MemoryLedger()
    assert await ledger.append(*(entry("issued") for _ in range(5))) == 4
    assert [each.sequence for each in await ledger.find(Query(limit=2))] == [0, 1]
    assert [each.sequence for each in await ledger.find(Query(limit=2, after=1, uid="u"))] == [2, 3]
    assert [each.sequence for each in await ledger.find(Query(limit=2, newest_first=True))] == [4, 3]
