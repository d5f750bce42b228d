"""Reads of one stored resource: by name, in pages, as a watch; at what version, in Kubernetes' words.

Source: k8s.io/apiserver/pkg/storage/cacher and pkg/storage/etcd3 (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from kubevouch.api import catalog
from kubevouch.machinery import errors, field
from kubevouch.machinery.codec.object_codec import ObjectCodec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.registry import paging
from kubevouch.registry.interface import Definition
from kubevouch.storage.interface import Compacted, KeyValue, Revision, Store
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.storage.watchcache.objects import Decode, Stored, why_unreadable
from kubevouch.storage.watchcache.resource_cache import Change, ResourceCache, Scope, Watcher
from kubevouch.util import turns
from kubevouch.util.clock import Clock, wait_at_most

T = TypeVar("T", bound=Object)

# How long a read waits for a revision that is not there yet (apiserver storage/cacher blockTimeout).
FUTURE_REVISION_WAIT_SECONDS = 3.0
# Objects that are looked at (fewer when a selector makes that dear), and stored values that are decoded, before others
# have their turn: 1 to 7 ms.
SCAN_SLICE = 2000
LOAD_SLICE = 200


class ListResult(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[Stored[T]]
    revision: Revision
    continue_token: str = ""
    remaining: int | None = None


class ResourceReader(Generic[T]):
    """What is stored of one resource, from the watch cache where it has it."""

    def __init__(
        self,
        definition: Definition[T],
        store: Store,
        cacher: Cacher,
        clock: Clock,
        cache: ResourceCache[T] | None = None,
    ) -> None:
        self.definition = definition
        self._store = store
        self._cacher = cacher
        self._clock = clock
        self._codec: ObjectCodec[T] = definition.resource.codec
        self._conversion = definition.conversion
        # What others have written may lack what every object has that came in here.
        self._default = catalog.SCHEME.defaulters.get(definition.resource.type)
        if cache is None:
            cache = _made_cache(definition, cacher, self.load)
        self.cache: ResourceCache[T] = cache

    def load(self, value: bytes, revision: Revision) -> T:
        resource = self.definition.resource
        obj = self._codec.from_value(value, resource.api_version, resource.kind)
        return self.at(obj if self._default is None else self._default(obj), revision)

    def read(self, entry: KeyValue) -> Stored[T]:
        """The object in what a store gave. Raises ``APIStatusError`` (500)."""
        try:
            return Stored(entry.key, self.load(entry.value, entry.revision), entry.revision, entry.value)
        except ValueError as err:
            raise errors.corrupt_object(entry.key, why_unreadable(err)) from err

    @staticmethod
    def at(obj: T, revision: Revision) -> T:
        """``obj`` as it was stored at ``revision``."""
        changed: T = replace_metadata(obj, resource_version=str(revision))
        return changed

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Stored[T]:
        """The object, at least as new as ``resource_version`` (empty: the newest; "0": whatever is at hand)."""
        if resource_version != "0":
            await self._fresh(parse_resource_version(resource_version, _bad_version))
        stored = self.readable(self.definition.key(namespace, name))
        if stored is None:
            raise errors.not_found(self.definition.resource.group_resource, name)
        return stored if self._conversion is None else await self._one_served(stored)

    def readable(self, key: str) -> Stored[T] | None:
        """What is stored under ``key``. Raises ``APIStatusError`` (500) if nobody can read it."""
        unreadable = self.cache.unreadable.get(key)
        if unreadable is not None:
            raise errors.corrupt_object(unreadable.key, unreadable.why)
        return self.cache.get(key)

    def _expect_readable(self, scope: Scope[T], revision: Revision | None = None) -> None:
        """Raises ``APIStatusError`` (500) if an object of ``scope`` cannot be read: left out, it would seem deleted."""
        found = [
            (each.key, each.why)
            for each in self.cache.unreadable.values()
            if (each.key == scope.key if scope.key else each.key.startswith(scope.prefix))
            and (revision is None or each.revision <= revision)
        ]
        if found:
            raise errors.unreadable_objects(self.definition.resource.group_resource, sorted(found))

    # -------------------------------------------------------------- versions

    def seen(self, stored: Stored[T]) -> T:
        """The object in the served version, as far as nobody has to be asked for that."""
        if self._conversion is None:
            return stored.obj
        known: Stored[T] | None = stored.in_version(self.definition.resource.api_version)
        return self._conversion.at_once(stored.obj) if known is None else known.obj

    async def _one_served(self, stored: Stored[T]) -> Stored[T]:
        (served,) = await self.served([stored])
        return served

    async def served(self, found: list[Stored[T]]) -> list[Stored[T]]:
        """``found`` in the served version, which each is brought to once. Raises ``APIStatusError``."""
        conversion, version = self._conversion, self.definition.resource.api_version
        if conversion is None:
            return found
        serves = conversion.serves
        # An object that was superseded is decoded anew each time that one looks at it.
        others = [(at, obj) for at, each in enumerate(found) if not serves(obj := each.obj)]
        if not others:
            return found
        shown = found.copy()
        missing = []
        for at, obj in others:
            known = found[at].in_version(version)
            if known is None:
                missing.append((at, obj))
            else:
                shown[at] = known
        made = await conversion.to_served([obj for _, obj in missing]) if missing else []
        for (at, _), obj in zip(missing, made, strict=True):
            each = found[at]
            shown[at] = Stored(each.key, obj, each.revision, each.raw)
            each.add_version(version, shown[at])
        return shown

    async def served_changes(self, changes: list[Change[T]]) -> list[Change[T]]:
        """As :meth:`served`."""
        if self._conversion is None:
            return changes
        stored = await self.served([change.stored for change in changes])
        return [
            change if each is change.stored else Change(change.type, each, change.revision)
            for change, each in zip(changes, stored, strict=True)
        ]

    async def _fresh(self, at_least: Revision) -> None:
        if at_least == 0:
            await self._cacher.newest()
        elif at_least > self._cacher.revision:
            await self._await_revision(at_least)

    async def _await_revision(self, wanted: Revision) -> None:
        try:
            await wait_at_most(self._clock, self._cacher.reach(wanted), FUTURE_REVISION_WAIT_SECONDS)
        except TimeoutError:
            raise errors.too_large_resource_version(wanted, self._cacher.revision) from None

    async def list_(
        self,
        scope: Scope[T],
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        match: str = "",
    ) -> ListResult[T]:
        """One page; the meaning of ``resource_version`` and ``match`` is Kubernetes' (facts: API concepts, 1.36)."""
        if continue_token:
            return await self._continue(scope, limit, paging.decode(continue_token), resource_version)
        revision = parse_resource_version(resource_version, _bad_list_version)
        if resource_version == "0":
            return await self._newest_page(scope, 0)
        exact = revision and (match == "Exact" or (not match and limit > 0))
        if exact:
            if revision > self._cacher.revision:
                await self._await_revision(revision)
            self._expect_readable(scope, revision)
            try:
                return await self._page_at(scope, revision, limit)
            except Compacted:
                return await self._list_from_store(scope, revision, limit)
        await self._fresh(revision)
        self._expect_readable(scope)
        return await self._newest_page(scope, limit)

    async def _continue(
        self, scope: Scope[T], limit: int, token: paging.ContinueToken, resource_version: str
    ) -> ListResult[T]:
        if resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        if resource_version == "0":
            limit = 0
        start = scope.prefix + token.start
        if token.revision < 0:
            await self._cacher.newest()
            self._expect_readable(scope)
            return await self._newest_page(scope, limit, start)
        revision = Revision(token.revision)
        if revision > self._cacher.revision:
            await self._await_revision(revision)
        self._expect_readable(scope, revision)
        try:
            return await self._page_at(scope, revision, limit, start)
        except Compacted:
            pass
        try:
            return await self._list_from_store(scope, revision, limit, start, consistent=True)
        except Compacted:
            fresh = paging.ContinueToken(-1, token.start).encode()
            raise errors.expired(paging.TOO_OLD, continue_token=fresh) from None

    async def _newest_page(self, scope: Scope[T], limit: int, start: str = "") -> ListResult[T]:
        revision = self._cacher.revision
        return await self._page(scope, revision, self._scan(scope, revision, start, limit), limit)

    async def _page_at(self, scope: Scope[T], revision: Revision, limit: int, start: str = "") -> ListResult[T]:
        """Raises ``Compacted``."""
        found = self.cache.scan_at(revision, scope.prefix, start, lasting=_is_long(scope, limit))
        return await self._page(scope, revision, found, limit)

    def _scan(self, scope: Scope[T], revision: Revision, start: str = "", limit: int = 0) -> Iterator[Stored[T]]:
        """The newest state that ``revision`` stands for: a write that watchers still hear of is not in it."""
        if scope.key:
            only = self.cache.get(scope.key) if scope.key >= start else None
            return iter(() if only is None else (only,))
        return self.cache.scan_at(revision, scope.prefix, start, lasting=_is_long(scope, limit))

    async def _page(
        self, scope: Scope[T], revision: Revision, found: Iterator[Stored[T]], limit: int, total: int | None = None
    ) -> ListResult[T]:
        """``total``: how many there are in ``found`` and after it, if the cache can't tell."""
        keep = scope.covers if scope.key or scope.matches else None
        if self._conversion is not None and scope.matches is not None:
            # Selectors look at the served version, for which others may have to be asked.
            found = iter(await self.served(list(found)))
        size = max(SCAN_SLICE // scope.cost, 1)
        items = await turns.take(found, size, keep=keep, most=limit + 1 if limit > 0 else None)
        if limit <= 0 or len(items) <= limit:
            return ListResult(await self.served(items), revision)
        following = items.pop()
        token = _token(items[-1].key, scope, revision)
        items = await self.served(items)
        if keep is not None:
            return ListResult(items, revision, token)
        rest = self.cache.count(scope.prefix, following.key, revision) if total is None else total - limit
        return ListResult(items, revision, token, rest)

    async def _list_from_store(
        self, scope: Scope[T], revision: Revision, limit: int, start: str = "", *, consistent: bool = False
    ) -> ListResult[T]:
        """A state that the cache no longer holds but the store still does."""
        selects = scope.matches is not None or scope.key
        wanted = limit + 1 if limit > 0 and not selects else 0
        try:
            page = await self._store.list(scope.prefix, start=start, limit=wanted, revision=revision)
        except Compacted:
            if consistent:
                raise
            raise errors.expired("The resourceVersion for the provided list is too old.") from None
        stored = (self.read(entry) for entry in page.items)
        loaded = await turns.take(stored, LOAD_SLICE)
        return await self._page(scope, revision, iter(loaded), limit, page.total)

    @property
    def revision(self) -> Revision:
        """How far the cache has come."""
        return self._cacher.revision

    async def watch(self, scope: Scope[T], resource_version: str) -> tuple[Watcher[T], list[Stored[T]], Revision]:
        """A watcher, the objects to send first (for an empty version or "0") and the revision they stand for.

        Raises:
            Compacted: the version is older than the history.
        """
        revision = parse_resource_version(resource_version, _bad_version)
        if revision:
            return self.cache.watch(scope, revision), [], revision
        if resource_version != "0":
            await self._cacher.newest()
        return await self._initial(scope)

    async def watch_list(self, scope: Scope[T], resource_version: str) -> tuple[Watcher[T], list[Stored[T]], Revision]:
        """As :meth:`watch`, for a stream that begins with the current objects whatever the version."""
        await self._fresh(parse_resource_version(resource_version, _bad_version))
        return await self._initial(scope)

    async def _initial(self, scope: Scope[T]) -> tuple[Watcher[T], list[Stored[T]], Revision]:
        revision = self._cacher.revision
        watcher = self.cache.watch(scope, revision)
        try:
            page = await self._page(scope, revision, self._scan(scope, revision), 0)
        except BaseException:
            watcher.close()
            raise
        return watcher, page.items, revision


def _made_cache(definition: Definition[T], cacher: Cacher, load: Decode) -> ResourceCache[T]:
    """One that stays empty for kinds of which there is nothing here: what lies in their place is another program's."""
    if definition.is_empty:
        return ResourceCache(definition.key_prefix)
    return cacher.register(definition.key_prefix, load)


def parse_resource_version(text: str, refuse: Callable[[str], APIStatusError]) -> Revision:
    """The number of a resourceVersion; empty is 0.

    Raises:
        APIStatusError: from ``refuse``, which gets Go's ``strconv`` sentence.
    """
    if not text:
        return Revision(0)
    if not (text.isascii() and text.isdigit()):
        raise refuse(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    value = int(text) if len(text) <= 20 else 1 << 64
    if value >= 1 << 64:
        raise refuse(f'strconv.ParseUint: parsing "{text}": value out of range')
    return Revision(value)


def _bad_list_version(detail: str) -> APIStatusError:
    text = detail.split('"')[1]
    shown = field.invalid("resourceVersion", text, detail)
    return errors.bad_request(f"invalid resource version: {shown}")


def _bad_version(detail: str) -> APIStatusError:
    text = detail.split('"')[1]
    return errors.untyped(str(field.invalid("resourceVersion", text, detail)))


def _token(last_key: str, scope: Scope[Any], revision: Revision) -> str:
    # From the watch cache Kubernetes writes the key with a leading slash; clients hand the token back unread.
    return paging.ContinueToken(revision, f"/{last_key[len(scope.prefix) :]}\x00").encode()


def _is_long(scope: Scope[Any], limit: int) -> bool:
    """Whether a page may take more than one slice, so that writes come between."""
    return scope.matches is not None or not 0 < limit < SCAN_SLICE
