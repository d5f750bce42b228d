"""The live stream of a store, where a watch and the feed do not stand at the same revision."""

from __future__ import annotations

import asyncio

from asynctest import async_test
from kubevouch.storage.feed import Feed, Stretch
from kubevouch.storage.interface import Revision, StoreEvent


@async_test
async def test_a_watch_that_began_above_what_the_feed_had_seen_does_not_go_back() -> None:
    asked: list[tuple[Revision, Revision]] = []

    async def history(_: str, after: Revision, upto: Revision) -> Stretch:
        asked.append((after, upto))
        return Stretch([StoreEvent("/a", upto, b"4", None)], upto)

    feed = Feed(Revision(1), history)
    watch = feed.watch("/", Revision(3))
    first = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    # As etcd's when it was compacted before it told anything: revisions 2 and 3 can be read nowhere any more.
    feed.skip(Revision(4))
    assert [event.revision for event in await first] == [4]
    assert asked == [(3, 4)]
    await watch.aclose()
