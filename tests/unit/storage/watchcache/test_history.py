"""What a history holds is what it says that it holds, and no more than its budgets."""

import gc
import random

import pytest

import aio
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import Compacted, Revision
from kubevouch.storage.watchcache.budgets import EVENT_BYTES, Budgets
from kubevouch.storage.watchcache.history import FORGOTTEN_AT_ONCE, HISTORY
from kubevouch.storage.watchcache.objects import CacheEvent, Stored
from kubevouch.storage.watchcache.resource_cache import BATCH_BYTES, ResourceCache, Scope, WatchClosed

CONFIG_MAPS, SECRETS = "/registry/configmaps/", "/registry/secrets/"
EVERYTHING = Revision(0)


def _map(value: bytes, revision: Revision) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(resource_version=str(revision)), data={"value": value.decode()})


def _stored(key: str, revision: int, size: int, budgets: Budgets | None = None) -> Stored[ConfigMap]:
    value, version = b"x" * size, Revision(revision)
    return Stored(key, _map(value, version), version, value, _map, budgets)


def _write(cache: ResourceCache[ConfigMap], name: str, revision: int, size: int | None) -> None:
    key = f"{cache.prefix}default/{name}"
    current = None if size is None else _stored(key, revision, size)
    if current is not None or cache.get(key) is not None:
        cache.apply(CacheEvent(Revision(revision), current, cache.get(key)))


def _held(cache: ResourceCache[ConfigMap]) -> int:
    """Bytes of the values that nothing but the history keeps alive."""
    current = {id(stored) for stored in cache.values()}
    held = {}
    for event in cache.history.newest_first(EVERYTHING):
        for stored in (event.current, event.previous):
            if stored is not None and id(stored) not in current:
                held[id(stored)] = len(stored.raw)
    return sum(held.values())


def _decoded(cache: ResourceCache[ConfigMap]) -> int:
    superseded = (event.previous for event in cache.history.newest_first(EVERYTHING))
    return sum(len(stored.raw) for stored in superseded if stored is not None and stored.obj is stored.obj)


def test_a_history_counts_what_it_alone_keeps() -> None:
    dice = random.Random(9)
    budgets = Budgets(history=60_000, decoded=9_000)
    caches = [ResourceCache[ConfigMap](prefix, 70, budgets) for prefix in (CONFIG_MAPS, SECRETS)]
    for revision in range(1, 3000):
        size = dice.choice((None, 0, 10, 500, dice.randrange(5000)))
        cache = dice.choice(caches)
        _write(cache, dice.choice("abcdefg"), revision, size)
        if revision % 50 == 0:
            for each in caches:
                events = len(list(each.history.newest_first(EVERYTHING)))
                assert each.history.bytes == _held(each) + EVENT_BYTES * events
                assert each.history.decoded_bytes == _decoded(each)
                assert each.object_bytes == sum(len(stored.raw) for stored in each.values())
            assert budgets.history_bytes == sum(each.history.bytes for each in caches) <= 60_000
            assert budgets.decoded_bytes == sum(each.history.decoded_bytes for each in caches) <= 9_000
    for each in caches:
        each.load([], Revision(3000))
    assert (budgets.history_bytes, budgets.decoded_bytes) == (0, 0)


def test_who_floods_loses_his_own_history_first() -> None:
    budgets = Budgets(history=100_000)
    small, large = (ResourceCache[ConfigMap](prefix, HISTORY, budgets) for prefix in (CONFIG_MAPS, SECRETS))
    for revision in range(1, 11):
        _write(small, "a", revision, 100)
    for revision in range(11, 100):
        _write(large, "a", revision, 9_000)
    assert len(small.watch(Scope(CONFIG_MAPS), EVERYTHING)._queue) == 10
    with pytest.raises(Compacted):
        large.watch(Scope(SECRETS), Revision(80))
    assert len(large.watch(Scope(SECRETS), Revision(95))._queue) == 4


def test_a_watcher_has_nothing_that_the_history_has_forgotten() -> None:
    """Else a client that reads nothing would keep what everybody else has let go."""

    async def scenario() -> None:
        budgets = Budgets(history=2 * FORGOTTEN_AT_ONCE)
        cache: ResourceCache[ConfigMap] = ResourceCache(SECRETS, HISTORY, budgets)
        _write(cache, "a", 1, 10)
        stuck = [
            cache.watch(Scope(SECRETS), Revision(1)),
            cache.watch(Scope(SECRETS, f"{SECRETS}default/a"), Revision(1)),
        ]
        for revision in range(2, 20):
            _write(cache, "a", revision, FORGOTTEN_AT_ONCE // 4)
            assert not any(watcher.is_behind(Revision(cache.oldest - 4)) for watcher in stuck)
        assert cache.watcher_count == 0
        for watcher in stuck:
            assert not watcher._queue
            with pytest.raises(WatchClosed):
                await watcher.next_batch()

    aio.run(scenario())


def test_a_batch_is_bounded_in_bytes() -> None:
    async def scenario() -> None:
        cache: ResourceCache[ConfigMap] = ResourceCache(SECRETS)
        watcher = cache.watch(Scope(SECRETS), EVERYTHING)
        for revision in range(1, 40):
            _write(cache, "a", revision, BATCH_BYTES // 2 if revision < 20 else 10)
        sizes: list[int] = []
        while sum(sizes) < 39:
            batch = await watcher.next_batch()
            assert sum(len(change.stored.raw) for change in batch[:-1]) < BATCH_BYTES
            sizes.append(len(batch))
        assert sizes == [2] * 9 + [21]

    aio.run(scenario())


def test_events_go_when_the_history_forgets_them() -> None:
    """Also those that are looked at once more after they gave back what watchers share."""
    cache: ResourceCache[ConfigMap] = ResourceCache(SECRETS, 5, Budgets(decoded=0))
    gc.collect()
    gc.disable()
    try:
        for revision in range(1, 50):
            watchers = [cache.watch(Scope(SECRETS), Revision(max(cache.oldest, revision - 3))) for _ in range(2)]
            _write(cache, "forgotten", revision, None if revision % 7 == 0 else 10)
            for watcher in watchers:
                watcher.close()
        watchers.clear()
        # The process may hold the events of other tests' servers, which have other names.
        events = [each for each in gc.get_objects() if isinstance(each, CacheEvent)]
        alive = [each for each in events if each.key.endswith("/forgotten")]
    finally:
        gc.enable()
    assert len(alive) == 5


# ------------------------------------------------------------------ encodings


def _encodings(objects: list[Stored[ConfigMap]]) -> int:
    return sum(len(value) for stored in objects for value in (stored._encodings or {}).values())


def test_encodings_have_one_budget_and_the_oldest_go_first() -> None:
    budgets = Budgets(encodings=10_000)
    objects = [_stored(f"{SECRETS}default/{number}", number, 10, budgets) for number in range(1, 100)]
    for stored in objects:
        for form in ("json", "protobuf"):
            assert stored.encoded(form, lambda _: b"x" * 150) == b"x" * 150
        assert _encodings(objects) == budgets.encoding_bytes <= 10_000
    assert [stored._encodings is not None for stored in objects] == [False] * 66 + [True] * 33
    for stored in objects:
        stored.shrink()
    assert budgets.encoding_bytes == _encodings(objects) == len(budgets._encoded) == 0
    for stored in objects:  # a watch that lags behind
        assert stored.encoded("json", lambda _: b"x" * 150) == b"x" * 150
    assert budgets.encoding_bytes == _encodings(objects) == len(budgets._encoded) == 0


def test_what_is_larger_than_the_budget_is_not_kept() -> None:
    budgets = Budgets(encodings=100)
    stored = _stored(f"{SECRETS}default/a", 1, 10, budgets)
    for _ in range(2):
        assert stored.encoded("json", lambda _: b"x" * 101) == b"x" * 101
        assert budgets.encoding_bytes == _encodings([stored]) == 0


def test_what_is_loaded_anew_gives_back_its_encodings() -> None:
    budgets = Budgets()
    cache: ResourceCache[ConfigMap] = ResourceCache(SECRETS, HISTORY, budgets)
    cache.load([_stored(f"{SECRETS}default/a", 1, 10, budgets)], Revision(1))
    for stored in cache.values():
        stored.encoded("json", lambda _: b"x" * 100)
    assert budgets.encoding_bytes == 100
    cache.load([], Revision(2))
    assert budgets.encoding_bytes == 0
