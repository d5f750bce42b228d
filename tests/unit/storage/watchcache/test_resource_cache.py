"""The cache of one resource: what a history costs."""

import asyncio
from itertools import pairwise

import pytest

import aio
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.history import DECODED_HISTORY
from kubevouch.storage.watchcache.objects import CacheEvent, Stored
from kubevouch.storage.watchcache.resource_cache import (
    FEW,
    OFFERED_AT_ONCE,
    WOKEN_AT_ONCE,
    ResourceCache,
    Scope,
    Watcher,
)

PREFIX = "/registry/configmaps/"
KEY = f"{PREFIX}default/one"


def _map(value: bytes, revision: Revision) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="one", resource_version=str(revision)), data={"value": value.decode()})


def _stored(revision: int) -> Stored[ConfigMap]:
    value, version = str(revision).encode(), Revision(revision)
    stored = Stored(KEY, _map(value, version), version, value, _map)
    stored.encoded("form", lambda _: value)
    return stored


def _is_encoded(stored: Stored[ConfigMap]) -> bool:
    again = b"again"
    return stored.encoded("form", lambda _: again) is not again


def _is_decoded(stored: Stored[ConfigMap]) -> bool:
    return stored.obj is stored.obj


def test_superseded_objects_shrink_and_stay_in_the_history() -> None:
    cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
    versions = [_stored(revision) for revision in range(1, DECODED_HISTORY + 12)]
    before: Stored[ConfigMap] | None = None
    for stored in versions:
        cache.apply(CacheEvent(stored.revision, stored, before))
        before = stored
    encoded = [_is_encoded(stored) for stored in versions]
    assert not any(encoded[:10])
    assert all(encoded[-DECODED_HISTORY:])
    assert [_is_decoded(stored) for stored in versions] == [False] * 11 + [True] * DECODED_HISTORY

    async def resumed() -> None:
        changes = await cache.watch(Scope(PREFIX), Revision(1)).next_batch()
        assert [change.stored for change in changes] == versions[1:]
        told = [change.stored.obj for change in changes]
        assert [obj.data["value"] for obj in told] == [str(revision) for revision in range(2, DECODED_HISTORY + 12)]
        assert [obj.metadata.resource_version for obj in told] == [obj.data["value"] for obj in told]

    aio.run(resumed())


def _named(name: str, revision: int) -> Stored[ConfigMap]:
    return Stored(f"{PREFIX}default/{name}", ConfigMap(metadata=ObjectMeta(name=name)), Revision(revision), b"")


def _change(cache: ResourceCache[ConfigMap], name: str, revision: int, *, gone: bool = False) -> None:
    current = None if gone else _named(name, revision)
    cache.apply(CacheEvent(Revision(revision), current, cache.get(f"{PREFIX}default/{name}")))


@pytest.mark.parametrize("count", [50, FEW + 50])
def test_a_lasting_scan_shows_its_own_moment_whatever_comes_after(count: int) -> None:
    cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
    cache.load([_named(f"{number:05}", 1) for number in range(count)], Revision(1))
    _change(cache, "00010", 2)
    expected = {lasting: list(cache.scan(PREFIX, lasting=lasting)) for lasting in (True, False)}
    assert expected[True] == expected[False]
    earlier = list(cache.scan_at(Revision(1), PREFIX))
    now, then = cache.scan(PREFIX, lasting=True), cache.scan_at(Revision(1), PREFIX, lasting=True)
    seen = [next(now) for _ in range(5)]
    seen_then = [next(then) for _ in range(5)]
    for revision, name in enumerate(("00003", "00020", "00030"), 3):
        _change(cache, name, revision)
    _change(cache, "00040", 6, gone=True)
    _change(cache, "00004a", 7)
    assert seen + list(now) == expected[True]
    assert seen_then + list(then) == earlier
    assert earlier[10].revision == 1


@pytest.mark.parametrize("start", ["", f"{PREFIX}default/b", f"{PREFIX}default/z"])
def test_counts_of_the_past_are_those_of_its_objects(start: str) -> None:
    cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
    cache.load([_named(name, 1) for name in "abc"], Revision(1))
    for revision, (name, gone) in enumerate((("b", True), ("d", False), ("a", False), ("b", False), ("c", True)), 2):
        _change(cache, name, revision, gone=gone)
    for revision in range(1, 7):
        found = list(cache.scan_at(Revision(revision), PREFIX, start))
        assert cache.count(PREFIX, start, Revision(revision)) == len(found)
    assert cache.count(PREFIX, start) == len(list(cache.scan(PREFIX, start)))
    assert cache.count("/registry/secrets/", start) == 0


def test_a_crowd_of_watchers_is_told_in_slices_and_each_hears_everything_in_order() -> None:
    async def scenario() -> None:
        cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
        told: list[int] = []

        async def listen(watcher: Watcher[ConfigMap]) -> None:
            seen: list[int] = []
            while len(seen) < 3:
                seen += [change.revision for change in await watcher.next_batch()]
                told.append(len(seen))
            assert seen == [1, 2, 3]

        count = 4 * WOKEN_AT_ONCE
        scopes: list[Scope[ConfigMap]] = [Scope(PREFIX), Scope(PREFIX, KEY)]
        watchers = [cache.watch(scopes[number % 2], Revision(0)) for number in range(count)]
        listeners = [asyncio.create_task(listen(watcher)) for watcher in watchers]
        await asyncio.sleep(0)
        _change(cache, "one", 1)
        heard = [0]
        while heard[-1] < count:
            await asyncio.sleep(0)
            heard.append(len(told))
        # Between two slices somebody else, here this test, had its turn.
        assert max(later - earlier for earlier, later in pairwise(heard)) <= WOKEN_AT_ONCE
        for revision in (2, 3):
            _change(cache, "one", revision)
        await asyncio.gather(*listeners)

    aio.run(scenario())


def _offering(cache: ResourceCache[ConfigMap], event: CacheEvent[ConfigMap]) -> int:
    return sum(1 for _ in cache.applying(event))


@pytest.mark.parametrize(("cost", "slices"), [(1, 0), (OFFERED_AT_ONCE // 4, 2), (OFFERED_AT_ONCE, 9)])
def test_watchers_are_asked_in_slices_by_what_their_selectors_cost(cost: int, slices: int) -> None:
    async def scenario() -> None:
        cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
        scopes: list[Scope[ConfigMap]] = [Scope(PREFIX, "", lambda _: True, str(n), cost) for n in range(10)]
        watchers = [cache.watch(scope, Revision(1)) for scope in scopes]
        assert _offering(cache, CacheEvent(Revision(2), _named("a", 2), None)) == slices
        for watcher in watchers:
            assert [change.revision for change in await watcher.next_batch()] == [2]

    aio.run(scenario())


def test_who_begins_to_watch_between_two_slices_hears_of_the_event_once() -> None:
    async def scenario() -> None:
        cache: ResourceCache[ConfigMap] = ResourceCache(PREFIX)
        scope: Scope[ConfigMap] = Scope(PREFIX, "", lambda _: True, "dear", OFFERED_AT_ONCE)
        first = [cache.watch(scope, Revision(1)) for _ in range(2)]
        slices = cache.applying(CacheEvent(Revision(2), _named("a", 2), None))
        next(slices)
        late = cache.watch(scope, Revision(1))
        assert list(slices) == []
        for watcher in (*first, late):
            assert [change.revision for change in await watcher.next_batch()] == [2]

    aio.run(scenario())
