"""The live stream: progress without events, and stretches that nobody was told of."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.storage.feed import Feed, Stretch
from kubevouch.storage.interface import Compacted, Revision, StoreEvent


def _event(revision: int) -> StoreEvent:
    return StoreEvent("/a", Revision(revision), b"", None)


class _History:
    """One event each revision above ``oldest``."""

    def __init__(self, oldest: int = 1) -> None:
        self.oldest = Revision(oldest)
        self.read: list[tuple[int, int]] = []

    async def __call__(self, _prefix: str, after: Revision, upto: Revision) -> Stretch:
        self.read.append((after, upto))
        if after < self.oldest:
            raise Compacted(after, self.oldest)
        return Stretch([_event(revision) for revision in range(after + 1, upto + 1)], upto)


@async_test
async def test_progress_comes_after_the_events_before_it() -> None:
    feed = Feed(Revision(1), _History())
    watch = feed.watch("/a", Revision(1))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    feed.publish([_event(2)], Revision(2))
    feed.progress(Revision(7))
    told = await waiting
    assert told == [_event(2), StoreEvent.progress(Revision(7))]
    assert [event.is_progress for event in told] == [False, True]
    assert feed.revision == 7


@async_test
async def test_a_watch_reads_what_the_feed_was_not_told() -> None:
    history = _History()
    feed = Feed(Revision(1), history)
    watch = feed.watch("/a", Revision(1))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    feed.publish([_event(2)], Revision(2))
    assert await waiting == [_event(2)]
    feed.skip(Revision(4))
    assert await anext(watch) == [_event(3), _event(4)]
    assert history.read == [(2, 4)]
    feed.publish([_event(5)], Revision(5))
    assert await anext(watch) == [_event(5)]


@async_test
async def test_a_watch_hears_that_what_it_missed_is_gone() -> None:
    feed = Feed(Revision(1), _History(oldest=3))
    watch = feed.watch("/a", Revision(1))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    feed.skip(Revision(4))
    with pytest.raises(Compacted):
        await waiting


@async_test
async def test_a_watch_from_the_future_on_that_was_dropped_still_begins_there() -> None:
    history = _History(oldest=6)
    feed = Feed(Revision(1), history)
    watch = feed.watch("/a", Revision(6))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    feed.skip(Revision(8))
    assert await waiting == [_event(7), _event(8)]
    assert history.read == [(6, 8)]
