"""``EtcdStore``: the store on etcd v3, with the keys, values and requests of kube-apiserver 1.36."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Self

from kubevouch.storage.compactor import RevisionBytes
from kubevouch.storage.copying.mark import MARK_KEY as COPY_KEY
from kubevouch.storage.copying.mark import decoded
from kubevouch.storage.etcd import compaction, messages
from kubevouch.storage.etcd.client import LIST_ATTEMPT_SECONDS, EtcdClient
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.keys import Keys
from kubevouch.storage.etcd.leases import SharedLeases, retrieve
from kubevouch.storage.etcd.mark import EtcdWentBack, Seen, read_noted, went_back
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.upstream import Upstream
from kubevouch.storage.feed import Watcher
from kubevouch.storage.interface import (
    Compacted,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    StoreDamaged,
    StoreUnavailable,
)
from kubevouch.storage.sqlite.mark import Noted
from kubevouch.storage.write import FIRST_REVISION, check_limit, check_value, expiry
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.held_files import NotInPlaceError
from kubevouch.util.logger import get_logger

log = get_logger("storage.etcd")

OPEN_SECONDS = 20.0
"""kube-apiserver's dial timeout."""
_CLOSE_SECONDS = 5.0
_SHARED_SECONDS = 1.0

# Keys asked for at once when all are wanted: more while they are small, fewer when they are large.
_FIRST_PAGE, _LARGEST_PAGE = 500, 8000
_SMALL_PAGE_BYTES, _LARGE_PAGE_BYTES = 2 << 20, 8 << 20


class EtcdStore:
    """A ``Store`` on etcd. Made by ``open``; belongs to the loop it was opened in."""

    revision_bytes = compaction.REVISION_BYTES

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock, options: EtcdOptions, seen: Seen) -> None:
        self._client = client
        self._seen = seen
        self._keys = keys
        self._clock = clock
        self._upstream = Upstream(client, keys, clock, seen.revision)
        self._size = 0
        self._polling = (
            asyncio.ensure_future(self._keep_size(options.db_poll_seconds)) if options.db_poll_seconds else None
        )
        self._leases = SharedLeases(self._grant, clock, options)
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[Revision] | None = None
        self._next: asyncio.Task[Revision] | None = None

    @classmethod
    async def open(
        cls, options: EtcdOptions, clock: Clock, *, seconds: float = OPEN_SECONDS, mark: Path | None = None
    ) -> Self:
        """
        Args:
            mark: where it is kept what this server has seen of etcd, without ``.mark``; None keeps nothing.

        Raises:
            EtcdWentBack: etcd is older than that, or another one.
            StoreUnavailable: no member answers within ``seconds``, or none lets us in.
        """
        name = options.name
        client = EtcdClient(options, clock)
        keys = Keys(options.prefix)
        try:
            noted = None if mark is None else read_noted(mark, name)
            answer = await client.call(messages.RANGE, messages.RangeRequest(key=keys.root), seconds)
            header = answer.header
            if noted is not None and (header.cluster_id != noted.identity or header.revision < noted.revision):
                if header.cluster_id == noted.identity or not await _is_copy_of(client, keys, noted):
                    raise went_back(name, header.cluster_id, header.revision, noted, mark)
                log.warning("etcd is a whole copy of the one before", cluster=f"{header.cluster_id:x}")
            return cls(client, keys, clock, options, Seen.begin(name, header, mark, noted))
        except CallFailed as err:
            await client.close()
            raise err.as_not_opened(options.endpoints) from err
        except OSError as err:
            await client.close()
            raise StoreUnavailable(f"{mark}.mark: {(err.strerror or str(err)).lower()}") from err
        except BaseException:
            await client.close()
            raise

    # -------------------------------------------------------------- reads

    async def get(self, key: str) -> KeyValue | None:
        wanted = self._keys.of(key)
        with self._open():
            answer = await self._call(messages.RANGE, messages.RangeRequest(key=wanted, limit=1), key)
        return self._first(key, answer)

    async def list(self, prefix: str, *, start: str = "", limit: int = 0, revision: Revision | None = None) -> Page:
        check_limit(limit)
        span = self._keys.range(prefix, start)
        with self._open():
            if revision is not None and revision < FIRST_REVISION:
                raise Compacted(revision, FIRST_REVISION)
            if span is None:
                return Page([], revision or await self._newest(), more=False, total=0)
            return await self._pages(span, limit, revision)

    async def _pages(self, span: tuple[bytes, bytes], limit: int, revision: Revision | None) -> Page:
        first, end = span
        found: list[KeyValue] = []
        total: int | None = None
        page = _FIRST_PAGE
        while True:
            wanted = min(page, limit - len(found)) if limit else page
            request = messages.RangeRequest(key=first, range_end=end, limit=wanted, revision=revision or 0)
            before = self._seen.revision
            try:
                answer = await self._client.read(messages.RANGE, request, LIST_ATTEMPT_SECONDS)
            except CallFailed as err:
                await self._refused(err, revision, first)
            self._seen.expect(answer.header, before)
            if revision is None:
                revision = Revision(answer.header.revision)
            total = answer.count if total is None else total
            size = 0
            for kv in answer.kvs:
                size += len(kv.value)
                try:
                    found.append(KeyValue(self._keys.text(kv.key), kv.value, Revision(kv.mod_revision)))
                except ValueError:
                    continue  # none of ours
            if not answer.more or (limit and len(found) >= limit):
                return Page(found, revision, answer.more, total)
            first = answer.kvs[-1].key + b"\0"
            if size < _SMALL_PAGE_BYTES:
                page = min(page * 2, _LARGEST_PAGE)
            elif size > _LARGE_PAGE_BYTES:
                page = max(page // 2, 1)

    async def revision(self) -> Revision:
        with self._open():
            revision = await self._newest()
        self._upstream.want(revision)
        return revision

    async def _newest(self) -> Revision:
        """Asked of a majority. Those who come while an answer is under way share the next one."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._ask_after(self._asking))
            self._next.add_done_callback(retrieve)
        return await asyncio.shield(self._next)

    async def _ask_after(self, before: asyncio.Task[Revision] | None) -> Revision:
        if before is not None:
            # One that is not answered keeps the next one for a second, or each would wait for all before it.
            await asyncio.wait({before}, timeout=_SHARED_SECONDS)
        self._asking, self._next = self._next, None
        request = messages.RangeRequest(key=self._keys.root, limit=1)
        # What the watch has told was acknowledged, too: caches and watches would wait for what never comes again.
        answer = await self._call(messages.RANGE, request, "", self._upstream.feed.revision)
        return Revision(answer.header.revision)

    # -------------------------------------------------------------- writes

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> Revision:
        name = self._checked(key, value, ttl)
        absent = messages.Compare(target=messages.MOD_REVISION, key=name, mod_revision=0)
        with self._open():
            answer = await self._put(key, name, value, ttl, absent, ())
        if not answer.succeeded:
            raise KeyExists(key)
        return Revision(answer.header.revision)

    async def update(self, key: str, value: bytes, expected: Revision, *, ttl: float | None = None) -> Revision:
        name = self._checked(key, value, ttl)
        with self._open():
            answer = await self._put(key, name, value, ttl, _at(name, expected), (_read(name),))
        return self._written(key, answer)

    async def delete(self, key: str, expected: Revision) -> Revision:
        name = self._keys.of(key)
        deletion = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=name))
        request = messages.TxnRequest(compare=[_at(name, expected)], success=[deletion], failure=[_read(name)])
        with self._open():
            answer = await self._call(messages.TXN, request, key)
        return self._written(key, answer)

    def _checked(self, key: str, value: bytes, ttl: float | None) -> bytes:
        name = self._keys.of(key)
        check_value(key, value)
        expiry(self._clock, ttl)
        return name

    async def _put(
        self, key: str, name: bytes, value: bytes, ttl: float | None, condition: Any, otherwise: tuple[Any, ...]
    ) -> Any:
        while True:
            lease = 0 if ttl is None else await self._lease(key, ttl)
            put = messages.RequestOp(request_put=messages.PutRequest(key=name, value=value, lease=lease))
            request = messages.TxnRequest(compare=[condition], success=[put], failure=otherwise)
            before = self._seen.revision
            try:
                answer = await self._client.write(messages.TXN, request)
                self._seen.expect(answer.header, before)
                return answer
            except CallFailed as err:
                if not (lease and err.is_lease_gone):
                    raise err.as_store_error(key) from err
                self._leases.forget(lease)

    async def _lease(self, key: str, ttl: float) -> int:
        try:
            return await self._leases.lease(ttl)
        except CallFailed as err:
            raise err.as_store_error(key) from err

    async def _grant(self, seconds: int) -> int:
        request = messages.LeaseGrantRequest(TTL=seconds)
        granted = await self._client.write(messages.LEASE_GRANT, request)
        identity: int = granted.ID
        return identity

    def _written(self, key: str, answer: Any) -> Revision:
        if not answer.succeeded:
            raise RevisionConflict(key, self._first(key, answer.responses[0].response_range))
        return Revision(answer.header.revision)

    # -------------------------------------------------------------- the rest

    def watch(self, prefix: str, after: Revision) -> Watcher:
        self._expect_open()
        return self._upstream.feed.watch(prefix, after)

    async def compact(self, revision: Revision) -> None:
        with self._open():
            if revision <= FIRST_REVISION:
                return
            try:
                await self._client.write(messages.COMPACT, messages.CompactionRequest(revision=revision))
            except CallFailed as err:
                if not err.is_compacted:
                    await self._refused(err, revision, b"")

    async def keep_compacting(self, interval: float, revisions: RevisionBytes) -> None:
        """For ever, every ``interval`` seconds, in turn with the other servers on this etcd."""
        await compaction.keep_compacting(self._client, self._clock, interval, revisions)

    def size(self) -> int:
        """The database's, in bytes, when it was last asked for; 0 before."""
        return self._size

    async def _keep_size(self, interval: float) -> None:
        known: list[str] = []
        while True:
            statuses = await self._client.statuses()
            self._size = max((status.dbSize for status in statuses), default=self._size)
            alarms = sorted({alarm for status in statuses for alarm in status.errors})
            if alarms and alarms != known:
                log.warning("etcd raised an alarm; of NOSPACE: compact, defragment, disarm it", alarms=alarms)
            known = alarms
            await self._clock.sleep(backoff.jittered(interval, random.random, 0.5))

    def expect_in_place(self) -> None:
        """Raises StoreUnavailable: the mark was deleted, moved or replaced."""
        try:
            self._seen.expect_in_place()
        except NotInPlaceError as error:
            raise StoreUnavailable(str(error)) from error

    def doubt(self) -> None:
        """Nothing of it is on this disk."""

    def expect_running(self) -> None:
        self._expect_open()
        self._upstream.expect_running()

    async def expect_writable(self) -> None:
        """As kube-apiserver: that a majority answers. Reads go on when etcd's room is used up, and so do deletions."""
        self.expect_running()
        await self._newest()

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await asyncio.wait_for(self._idle.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            pass
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait({self._polling})
        await self._upstream.close()
        await self._client.close()
        self._seen.close()

    # -------------------------------------------------------------- shared

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Around every call, so that closing waits for it."""
        self._expect_open()
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    def _expect_open(self) -> None:
        if self._closing is not None:
            raise StoreUnavailable("etcd: the store is closed")
        if self._seen.problem is not None:
            raise EtcdWentBack(str(self._seen.problem), self._seen.problem.got)

    async def _call(self, method: messages.Method, request: Any, key: str, known: Revision = FIRST_REVISION) -> Any:
        """``known``: a revision that etcd had before, besides those that this store has seen."""
        before = max(self._seen.revision, known)
        try:
            answer = await (self._client.read if method.repeats else self._client.write)(method, request)
        except CallFailed as err:
            raise err.as_store_error(key) from err
        self._seen.expect(answer.header, before)
        return answer

    async def _refused(self, err: CallFailed, revision: Revision | None, key: bytes) -> NoReturn:
        if revision is not None and err.is_compacted:
            raise Compacted(revision, await self._upstream.oldest(revision)) from err
        if revision is not None and err.is_future:
            raise FutureRevision(revision, await self._newest()) from err
        raise err.as_store_error(key.decode(errors="replace")) from err

    def _first(self, key: str, answer: Any) -> KeyValue | None:
        for kv in answer.kvs:
            return KeyValue(key, kv.value, Revision(kv.mod_revision))
        return None


async def _is_copy_of(client: EtcdClient, keys: Keys, noted: Noted) -> bool:
    """Whether another cluster than ``noted`` holds all that was acknowledged there: see ``storage.copying``.

    Raises:
        CallFailed
    """
    answer = await client.call(messages.RANGE, messages.RangeRequest(key=keys.of(COPY_KEY)), OPEN_SECONDS)
    if not answer.kvs:
        return False
    try:
        copied = decoded(answer.kvs[0].value)
    except StoreDamaged:
        return False
    is_from = copied.source.startswith(f"etcd:{noted.identity:x}/")
    return is_from and copied.finished and copied.source_revision >= noted.revision


def _at(name: bytes, expected: Revision) -> Any:
    # 0 would be a key that is not there; no key is ever at -1.
    return messages.Compare(target=messages.MOD_REVISION, key=name, mod_revision=expected or -1)


def _read(name: bytes) -> Any:
    return messages.RequestOp(request_range=messages.RangeRequest(key=name))
