"""One follower of the whole store that feeds the caches of all resources.

A single stream gives every cache the same revision, so a list of any resource can be answered "as of now" once the
stream has reached the store's newest revision.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kubevouch.api.storage_keys import ROOT, prefix_part
from kubevouch.storage.copying.mark import OWN_KEYS
from kubevouch.storage.interface import Compacted, KeyValue, Revision, Store, StoreError, StoreEvent, StoreTimeout
from kubevouch.storage.watchcache.budgets import Budgets
from kubevouch.storage.watchcache.history import HISTORY
from kubevouch.storage.watchcache.objects import CacheEvent, Decode, Stored, Unreadable, why_unreadable
from kubevouch.storage.watchcache.resource_cache import ResourceCache
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way
from kubevouch.util.worker import beside_loop

log = get_logger("storage.cacher")

RESTART_SECONDS = 1.0
# By these the servers of a store know of each other.
_NO_KINDS = {"masterleases"}
# How long a request waits at least for the caches to come as far as the store. kube-apiserver's are 34 and 60 s.
PATIENCE_SECONDS = 30.0
# Values decoded before others have their turn, and the length from which one is decoded off the loop: it may have two
# bytes an element, and a microsecond each.
LOAD_SLICE = 200
LARGE_VALUE_BYTES = 32 * 1024


class _Registered(msgspec.Struct):
    """``missed``: events that came before the cache was loaded; None once it is."""

    cache: ResourceCache[Any]
    decode: Decode
    missed: list[StoreEvent] | None = None


class Tap(msgspec.Struct, frozen=True):
    """Who hears of all values under a prefix, whether a kind is served there or not.

    Args:
        load: is given all values, by key, before the caches are said to be ready.
        changed: is given a key and its new value; None for one that is gone.
    """

    prefix: str
    load: Callable[[Mapping[str, bytes]], Awaitable[None]]
    changed: Callable[[str, bytes | None], None]


class Cacher:
    """Keeps a :class:`ResourceCache` for each registered key prefix in step with the store.

    Args:
        history: how many events of each resource are remembered, as far as the budgets allow.
        budgets: what the caches take together, in bytes.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        root: str = ROOT,
        history: int = HISTORY,
        budgets: Budgets | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._root = root
        self._history = history
        self.budgets = budgets or Budgets()
        self._registered: dict[str, _Registered] = {}
        self._taps: list[Tap] = []
        # Keys that belong to no cache: other programs' values, and objects of kinds whose definition is not there.
        self._unserved: set[str] = set()
        self._revision = Revision(0)
        self._waiting: dict[asyncio.Future[None], Revision] = {}
        self._task: asyncio.Task[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._started = False

    def register(self, prefix: str, decode: Decode) -> ResourceCache[Any]:
        """The cache of the keys under ``prefix`` (one or two path segments below the root, ending in a slash).

        It is filled by :meth:`start`, or by :meth:`join` if that has been.
        """
        cache: ResourceCache[Any] = ResourceCache(prefix, self._history, self.budgets)
        self._registered[prefix] = _Registered(cache, decode, [] if self._started else None)
        return cache

    def tap(self, tap: Tap) -> None:
        """Feed ``tap`` from the start on; before :meth:`start`."""
        self._taps.append(tap)

    async def join(self, cache: ResourceCache[Any], before: Callable[[], Awaitable[None]] | None = None) -> None:
        """Fill a cache that was registered after the start; then it stands where all others do.

        Args:
            before: what has to be done before anything can be decoded, if there is anything.

        Raises:
            StoreError: the store could not be read.
        """
        registered = self._joining(cache)
        if registered is None:
            return
        page = await self._store.list(cache.prefix)
        if page.items and before is not None:
            await before()
        objects, unreadable = await self._decoded(registered, page.items)
        # What is older than the page came with it.
        await self.reach(page.revision)
        registered = self._joining(cache)
        if registered is None:
            return  # everything was loaded anew meanwhile
        cache.load(objects, page.revision, unreadable)
        missed = registered.missed
        while missed:
            event = missed.pop(0)
            if event.revision > page.revision:
                await self._take(registered, event)
        registered.missed = None

    def _joining(self, cache: ResourceCache[Any]) -> _Registered | None:
        registered = self._registered.get(cache.prefix)
        waits = registered is not None and registered.cache is cache and registered.missed is not None
        return registered if waits else None

    def unregister(self, cache: ResourceCache[Any]) -> None:
        """Stop feeding ``cache``; its watches end, and it holds nothing any more."""
        registered = self._registered.get(cache.prefix)
        if registered is not None and registered.cache is cache:
            del self._registered[cache.prefix]
        cache.close_watchers()
        self._unserved.update(stored.key for stored in cache.values())
        self._unserved.update(cache.unreadable)
        cache.load([], self._revision)
        self.budgets.leave(cache.history)

    async def start(self) -> None:
        """Load everything and follow the store from there."""
        self._started = True
        await self._load()
        if unserved := self.unserved():
            log.warning("values of kinds that are not served are left alone", values=unserved)
        self._task = asyncio.create_task(self._follow(), name="watch-cache")

    async def close(self) -> None:
        tasks = {task for task in (self._task, self._giving_up) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for registered in self._registered.values():
            registered.cache.close_watchers()
        for waiter in self._waiting:
            waiter.cancel()

    @property
    def revision(self) -> Revision:
        """How far the caches have come."""
        return self._revision

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    @property
    def object_bytes(self) -> int:
        """Stored bytes of all current objects."""
        return sum(registered.cache.object_bytes for registered in self._registered.values())

    def unserved(self) -> dict[str, int]:
        """How many values there are of each kind that is not served, by the part of their keys that says the kind."""
        others = (key for key in self._unserved if self._for_key(key) is None and key not in OWN_KEYS)
        parts = Counter(map(prefix_part, others))
        return {part: parts[part] for part in sorted(parts.keys() - _NO_KINDS)}

    def unreadable(self) -> dict[str, int]:
        """How many values there are of which no object can be made, by the part of their keys that says the kind."""
        found = (each for registered in self._registered.values() for each in registered.cache.unreadable)
        return dict(sorted(Counter(map(prefix_part, found)).items()))

    @property
    def watchers(self) -> int:
        return sum(registered.cache.watcher_count for registered in self._registered.values())

    async def newest(self) -> Revision:
        """Wait until the caches hold everything that was acknowledged before this call."""
        revision = await self._store.revision()
        await self.reach(revision)
        return self._revision

    async def reach(self, revision: Revision) -> None:
        """Wait until the caches hold the write ``revision``.

        Raises:
            StoreTimeout: they do not, for too long: the store is out of reach.
        """
        if self._revision >= revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = revision
        if self._giving_up is None or self._giving_up.done():
            self._giving_up = asyncio.create_task(self._give_up(), name="watch-cache-patience")
        try:
            await waiter
        finally:
            del self._waiting[waiter]

    async def _give_up(self) -> None:
        """Ends the waits of those who have waited for one to two times ``PATIENCE_SECONDS``."""
        while self._waiting:
            before = list(self._waiting)
            await self._clock.sleep(PATIENCE_SECONDS)
            for waiter in before:
                wanted = self._waiting.get(waiter)
                if wanted is not None and not waiter.done():
                    waiter.set_exception(StoreTimeout(f"the watch cache is behind revision {wanted}"))
            await asyncio.sleep(0)

    # -------------------------------------------------------------- following

    async def _load(self) -> None:
        page = await self._store.list(self._root)
        grouped: dict[str, list[KeyValue]] = {}
        self._unserved = set()
        for item in page.items:
            registered = self._for_key(item.key)
            if registered is None:
                self._unserved.add(item.key)
            else:
                grouped.setdefault(registered.cache.prefix, []).append(item)
        loaded = [
            (registered, await self._decoded(registered, grouped.get(registered.cache.prefix, [])))
            for registered in list(self._registered.values())
        ]
        for tap in self._taps:
            await tap.load({item.key: item.value for item in page.items if item.key.startswith(tap.prefix)})
        for registered, (objects, unreadable) in loaded:
            registered.cache.close_watchers()  # whoever began meanwhile would miss what lies between
            registered.cache.load(objects, page.revision, unreadable)
            registered.missed = None
        self._advance(page.revision)
        self._ready.set()

    async def _decoded(
        self, registered: _Registered, items: Sequence[KeyValue]
    ) -> tuple[list[Stored[Any]], dict[str, Unreadable]]:
        found, unreadable = [], {}
        size = 0
        for number, item in enumerate(items, 1):
            size += len(item.value)
            if number % LOAD_SLICE == 0 or size > LARGE_VALUE_BYTES:
                await give_way()
                size = 0
            stored = self._decode(registered, item.key, item.value, item.revision)
            if isinstance(stored, Stored):
                found.append(stored)
            else:
                unreadable[item.key] = stored
        return found, unreadable

    async def _follow(self) -> None:
        while True:
            try:
                async for batch in self._store.watch(self._root, self._revision):
                    for event in batch:
                        await self._apply(event)
                    if batch:
                        self._advance(batch[-1].revision)
            except Compacted:
                log.warning("watch cache fell behind a compaction, loading anew")
                await self._load_anew()
            except StoreError as err:
                log.error("store watch failed", err=str(err))
                await self._clock.sleep(RESTART_SECONDS)
            except Exception:
                log.exception("watch cache failed, loading anew")
                await self._clock.sleep(RESTART_SECONDS)
                await self._load_anew()

    async def _load_anew(self) -> None:
        self._ready.clear()
        for registered in self._registered.values():
            registered.cache.close_watchers()
        await self._load()

    def _advance(self, revision: Revision) -> None:
        self._revision = revision
        if self._waiting:
            for waiter, wanted in self._waiting.items():
                if wanted <= revision and not waiter.done():
                    waiter.set_result(None)

    def _for_key(self, key: str) -> _Registered | None:
        end = key.find("/", len(self._root))
        found = self._registered.get(key[: end + 1])
        if found is None and end > 0:
            # Services are kept under two segments: /registry/services/specs/.
            found = self._registered.get(key[: key.find("/", end + 1) + 1])
        return found

    async def _apply(self, event: StoreEvent) -> None:
        for tap in self._taps:
            if event.key.startswith(tap.prefix):
                tap.changed(event.key, event.value)
        registered = self._for_key(event.key)
        if registered is None:
            if event.value is None:
                self._unserved.discard(event.key)
            else:
                self._unserved.add(event.key)
        elif registered.missed is not None:
            registered.missed.append(event)
        else:
            await self._take(registered, event)

    async def _take(self, registered: _Registered, event: StoreEvent) -> None:
        cache = registered.cache
        previous = cache.get(event.key)
        change: CacheEvent[Any] | None
        if event.value is not None:
            decode = partial(self._decode, registered, event.key, event.value, event.revision)
            current = decode() if len(event.value) < LARGE_VALUE_BYTES else await asyncio.to_thread(beside_loop, decode)
            if isinstance(current, Unreadable):
                # Whoever watches keeps what there was: nobody knows whether it is gone.
                cache.unreadable[event.key] = current
                return
            change = CacheEvent(event.revision, current, previous)
        else:
            change = None if previous is None else CacheEvent(event.revision, None, previous)
        cache.unreadable.pop(event.key, None)
        if change is None:
            return
        for _ in cache.applying(change):
            await give_way()

    def _decode(self, registered: _Registered, key: str, value: bytes, revision: Revision) -> Stored[Any] | Unreadable:
        try:
            return Stored(key, registered.decode(value, revision), revision, value, registered.decode, self.budgets)
        except ValueError as err:
            # One unreadable value must not take the resource down; reads of it answer 500 (registry).
            unreadable = Unreadable(key, revision, why_unreadable(err))
            log.error("unreadable value in the store", key=key, revision=revision, err=unreadable.why)
            return unreadable
