"""A ledger in the cluster's own objects: several programs write one chain, and whoever takes over reads all of it.

Each segment (``segments``) is a ConfigMap of the namespace ``kubevouch-ledger``. The last one is open: an append
replaces it under its resourceVersion, or creates the next one, so of two writers one succeeds and the other reads what
came and appends behind it. A full one is immutable, which the API server enforces. Writers need no right to delete.

What is found is never older than the question: each ``find`` follows a read of the open segment that began after it was
asked, or an append that succeeded, which proves the same. Questions that wait together share a read, as appends share a
write.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Self

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client, ListOptions, NotLeading, TransportError
from kubevouch.client.pager import is_expired
from kubevouch.client.stored import find as find_stored
from kubevouch.ledger import segments
from kubevouch.ledger.entries import INTENDED, ISSUED, Entry, EntryTooLarge, Query, Recorded, encode
from kubevouch.ledger.index import EntryIndex
from kubevouch.ledger.interface import LedgerDamaged, LedgerError, LedgerOvertaken, LedgerUnavailable
from kubevouch.ledger.opening import ORIGIN_PREFIX
from kubevouch.ledger.segments import Head, Position, damaged, name_of
from kubevouch.ledger.store import Statistics
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

NAMESPACE = wellknown.LEDGER_NAMESPACE
NOTE_SECONDS = 10.0
"""Until the head is noted in its own object, in another namespace."""
_PAGE = 20
_MOST_IN_BATCH = 512
_MOST_CONFLICTS = 100
_TRIES = 5
"""Of a write and of the read behind it, when the server does not answer; then nothing was acknowledged."""
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 2.0

log = get_logger("kubevouch.ledger")


class _Pending(msgspec.Struct):
    entries: Sequence[Entry]
    bodies: Sequence[bytes]
    future: asyncio.Future[int]
    since: float


class _Sent(msgspec.Struct, frozen=True):
    """A write of which nobody knows whether it was carried out: if so, the chain passes through this."""

    size: int
    link: bytes
    pending: Sequence[_Pending]


class Loaded(msgspec.Struct, frozen=True):
    """A ledger that was read from its first entry to its last.

    Args:
        entries: all of them.
        position: where the chain stands; its origin is empty where there is no ledger.
        tail: the open segment, if there is one.
        noted: the head that was noted before it was read; None where none is.
    """

    entries: EntryIndex
    position: Position
    tail: ConfigMap | None
    noted: Head | None


async def load(client: Client) -> Loaded:
    """Read and check the whole ledger of a cluster.

    Raises:
        LedgerDamaged: an entry was changed, is missing, or is not where it belongs.
        LedgerUnavailable
    """
    try:
        for _ in range(_TRIES):
            try:
                return await _load(client)
            except APIStatusError as err:
                if not is_expired(err.status):
                    raise
        raise LedgerUnavailable(f"{_WHERE}: it changes faster than it can be read")
    except (APIStatusError, TransportError) as err:
        raise _unavailable("read", err) from err


async def _load(client: Client) -> Loaded:
    noted = await _noted(client)
    index, position, tail = EntryIndex(), segments.BEFORE_ALL, None
    async for config_map in _segments(client):
        name = config_map.metadata.name
        if tail is not None:
            raise damaged(f"{name} behind {tail.metadata.name}, which is open", "no segment behind the open one")
        if name != name_of(position.number):
            raise damaged(f"{name}, and no {name_of(position.number)} before it", "every segment")
        is_closed = bool(config_map.immutable)
        size = position.size
        found, position = segments.followed(position, config_map.data, is_closed=is_closed)
        tail = None if is_closed else config_map
        for each in found:
            size += 1
            if noted is not None and size == noted.size and each.link.hex() != noted.link:
                raise damaged(f"{size} entries that are not those whose head was noted", "what was written")
            index.add(each.entry, each.body)
        await asyncio.sleep(0)  # a ledger has thousands, and others want their turns
    if noted is not None and (position.size < noted.size or position.origin != noted.origin):
        raise damaged(
            f"{position.size} entries of {position.origin or 'no ledger'}",
            f"at least the {noted.size} of {noted.origin} that are noted in {_HEAD}",
        )
    return Loaded(index, position, tail, noted)


class ClusterLedger:
    """See ``ledger.interface.Ledger``."""

    copied = ""

    def __init__(self, client: Client, clock: Clock, loaded: Loaded) -> None:
        self.statistics = Statistics(entries=loaded.position.size)
        self.fault: LedgerDamaged | None = None
        """What the newest look at it has found."""
        self._client = client
        self._clock = clock
        self._index = loaded.entries
        self._position = loaded.position
        self._tail = loaded.tail
        self._noted = loaded.noted.size if loaded.noted is not None else 0
        self._appends: list[_Pending] = []
        self._readers: list[asyncio.Future[None]] = []
        self._under_way: list[_Pending] = []
        self._working: asyncio.Task[None] | None = None
        self._noting: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, client: Client, clock: Clock) -> Self:
        """Read all of it. The first append makes one where there is none.

        Raises:
            LedgerDamaged, LedgerUnavailable
        """
        loaded = await load(client)
        size = loaded.position.size
        if size and loaded.noted is None:
            log.warning("nothing says how far the ledger in the cluster had reached: entries may be missing at its end",
                        entries=size, head=_HEAD)  # fmt: skip
        if loaded.position.number >= segments.MOST_SEGMENTS * 3 // 4:
            log.warning("the ledger in the cluster is nearly full", segments=loaded.position.number,
                        most=segments.MOST_SEGMENTS)  # fmt: skip
        opened = cls(client, clock, loaded)
        await opened._note()
        return opened

    @property
    def origin(self) -> str:
        """Empty before the first append."""
        return self._position.origin

    @property
    def lag(self) -> float:
        """Seconds that the oldest entry waits which nobody has acknowledged."""
        waiting = [each.since for each in (*self._under_way, *self._appends)]
        return self._clock.monotonic() - min(waiting) if waiting else 0.0

    async def append(self, *entries: Entry) -> int:
        """See ``ledger.interface.Ledger``.

        Raises:
            LedgerOvertaken: another process has written meanwhile that the same request is to be signed, or was.
            LedgerDamaged, LedgerUnavailable
        """
        bodies = [encode(entry) for entry in entries]
        if sum(map(len, bodies)) + len(bodies) > segments.MOST_APPEND_BYTES:
            raise EntryTooLarge(f"got entries of more than {segments.MOST_APPEND_BYTES} bytes in one append")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._expect_open()
        self._appends.append(_Pending(entries, bodies, future, self._clock.monotonic()))
        self._wake()
        return await future

    async def find(self, query: Query) -> Sequence[Recorded]:
        """See ``ledger.interface.ReadableLedger``."""
        self._expect_open()
        fresh: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(fresh)
        self._wake()
        await fresh
        return await self._index.find(query)

    async def close(self) -> None:
        """Ends what waits, and notes the head."""
        self._closed = True
        for task in (self._noting, self._working):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        for each in self._appends:
            if not each.future.done():
                each.future.set_exception(LedgerUnavailable(f"{_WHERE}: the ledger is closed"))
        for reader in self._readers:
            if not reader.done():
                reader.set_exception(LedgerUnavailable(f"{_WHERE}: the ledger is closed"))
        with suppress(TimeoutError):  # a server that does not answer holds nobody up; the next one notes it
            async with deadline(self._clock, _LONGEST_DELAY):
                await self._note()

    def _expect_open(self) -> None:
        if self._closed:
            raise LedgerUnavailable(f"{_WHERE}: the ledger is closed")

    # -------------------------------------------------------------- one task writes and reads

    def _wake(self) -> None:
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work(), name="cluster-ledger")

    async def _work(self) -> None:
        while self._appends or self._readers:
            pending, readers = self._taken(), self._readers
            self._readers, self._under_way = [], pending
            failure: LedgerError | None = LedgerUnavailable(f"{_WHERE}: the ledger is closed")
            try:
                if not await self._commit(pending):
                    await self._refresh()
                failure, self.fault = None, None
            except LedgerError as err:
                failure = err
                self.fault = err if isinstance(err, LedgerDamaged) else self.fault
                self._tell_failed(pending, err)
            except Exception as err:
                failure = LedgerUnavailable(f"{_WHERE}: got {err!r} from an append; please report it")
                log.exception("ledger commit failed")
            finally:
                self._under_way = []
                waiting: list[asyncio.Future[int] | asyncio.Future[None]] = [each.future for each in pending]
                for future in (*waiting, *readers):
                    if not future.done() and failure is not None:
                        future.set_exception(failure)
                for reader in readers:
                    if not reader.done():
                        reader.set_result(None)

    def _taken(self) -> list[_Pending]:
        """What is written together: as much as fits into a segment, and at least the first."""
        size, taken = 0, 0
        for each in self._appends[:_MOST_IN_BATCH]:
            size += sum(map(len, each.bodies))
            if taken and size > segments.TARGET_BYTES:
                break
            taken += 1
        pending, self._appends = self._appends[:taken], self._appends[taken:]
        return pending

    def _tell_failed(self, pending: Sequence[_Pending], err: LedgerError) -> None:
        if pending:
            self.statistics.failed_commits += 1
            log.error("ledger commit failed", entries=sum(len(each.entries) for each in pending), error=str(err))

    async def _commit(self, pending: Sequence[_Pending]) -> bool:
        """Append what may be appended; returns whether that has shown that nobody else has written since.

        Raises:
            LedgerDamaged, LedgerUnavailable
        """
        begun = self._clock.monotonic()
        unsure: list[_Sent] = []
        tries = 0
        delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), random.random)
        for _ in range(_MOST_CONFLICTS):
            kept = await self._admitted(pending)
            if not kept:
                return False
            position = self._position
            if not position.origin:
                position = segments.begun(f"{ORIGIN_PREFIX}{secrets.token_hex(8)}")
            if position.number >= segments.MOST_SEGMENTS:
                raise LedgerUnavailable(f"{_WHERE}: got {position.number} segments, which is all it may have; see"
                                        " docs/howto/ledger.md on how to begin another one")  # fmt: skip
            bodies = [body for each in kept for body in each.bodies]
            data, is_full, after = segments.written(position, self._text, bodies)
            try:
                stored = await self._write(position, data, is_full=is_full)
            except NotLeading as err:
                raise _unavailable("written", err) from err
            except (APIStatusError, TransportError) as err:
                if not _may_be_stored(err) and not _is_opposed(err):
                    raise _unavailable("written", err) from err
                if not _is_opposed(err):
                    unsure.append(_Sent(after.size, after.link, kept))
                    tries += 1
                    if tries >= _TRIES:
                        raise _unavailable("written", err) from err
                    await self._clock.sleep(next(delays))
                passed = await self._refresh_at_last()
                for sent in unsure:
                    if (sent.size, sent.link) in passed:
                        self._tell_stored(sent.pending, sent.size, begun)
                        return True
                continue
            self._position, self._tail = after, None if is_full else stored
            for each in kept:
                for entry, body in zip(each.entries, each.bodies, strict=True):
                    self._index.add(entry, body)
            self._tell_stored(kept, after.size, begun)
            return True
        raise LedgerUnavailable(f"{_WHERE}: others write so often that nothing of this process gets in")

    @property
    def _text(self) -> str:
        return "" if self._tail is None else self._tail.data[segments.ENTRIES]

    async def _admitted(self, pending: Sequence[_Pending]) -> list[_Pending]:
        """Without those that another process has overtaken; these are told so."""
        kept: list[_Pending] = []
        taken: set[tuple[str, str, str]] = set()
        for each in pending:
            if each.future.done():
                continue
            about = {(entry.kind, entry.uid, entry.digest) for entry in each.entries if _is_once(entry)}
            if about & taken or any([await self._is_overtaken(entry) for entry in each.entries]):
                each.future.set_exception(
                    LedgerOvertaken(
                        f"{_WHERE}: another process has written about {each.entries[0].request}"
                        " meanwhile; it is looked at again"
                    )
                )
                continue
            taken |= about
            kept.append(each)
        return kept

    async def _is_overtaken(self, entry: Entry) -> bool:
        """Who looked before and found nothing would sign what another process signs, or has signed."""
        if not _is_once(entry):
            return False
        found = await self._index.find(Query(kinds=frozenset({entry.kind}), uid=entry.uid))
        same = (each.entry for each in found if each.entry.digest == entry.digest)
        if entry.kind == INTENDED:
            return any(True for _ in same)
        return any(each.not_after is not None and each.not_after > entry.at for each in same)

    async def _write(self, position: Position, data: dict[str, str], *, is_full: bool) -> ConfigMap:
        immutable = True if is_full else None
        if self._tail is not None:
            return await self._client.update(
                CONFIG_MAPS, msgspec.structs.replace(self._tail, data=data, immutable=immutable)
            )
        meta = ObjectMeta(name=name_of(position.number), namespace=NAMESPACE)
        return await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=data, immutable=immutable))

    def _tell_stored(self, pending: Sequence[_Pending], size: int, begun: float) -> None:
        statistics = self.statistics
        statistics.commits += 1
        statistics.commit_seconds += self._clock.monotonic() - begun
        statistics.entries = self._position.size
        sequence = size - sum(len(each.entries) for each in pending)
        for each in pending:
            sequence += len(each.entries)
            statistics.appended += len(each.entries)
            if not each.future.done():
                each.future.set_result(sequence - 1)
        if self._noting is None or self._noting.done():
            self._noting = asyncio.get_running_loop().create_task(self._note_later(), name="cluster-ledger-head")

    # -------------------------------------------------------------- reading what others wrote

    async def _refresh_at_last(self) -> set[tuple[int, bytes]]:
        """As :meth:`_refresh`, tried again: whether an append is there decides what its writer is told."""
        delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), random.random)
        for _ in range(_TRIES - 1):
            try:
                return await self._refresh()
            except LedgerUnavailable as err:
                log.info("the ledger cannot be read, which is tried again", error=str(err))
                await self._clock.sleep(next(delays))
        return await self._refresh()

    async def _refresh(self) -> set[tuple[int, bytes]]:
        """Take in what was written since; returns through which sizes and hashes the chain has passed.

        Raises:
            LedgerDamaged, LedgerUnavailable
        """
        passed: set[tuple[int, bytes]] = set()
        while True:
            position = self._position
            name = name_of(position.number)
            try:
                config_map = await find_stored(self._client, CONFIG_MAPS, name, NAMESPACE)
            except (APIStatusError, TransportError) as err:
                raise _unavailable("read", err) from err
            if config_map is None:
                if position.within:
                    raise damaged(f"no {name}", "the segment that was open")
                return passed
            known = self._tail
            if known is not None and config_map.metadata.resource_version == known.metadata.resource_version:
                return passed
            is_closed = bool(config_map.immutable)
            size = position.size
            found, self._position = segments.followed(position, config_map.data, is_closed=is_closed)
            self._tail = None if is_closed else config_map
            for each in found:
                size += 1
                passed.add((size, each.link))
                self._index.add(each.entry, each.body)
            self.statistics.entries = self._position.size
            if not is_closed:
                return passed

    # -------------------------------------------------------------- how far it has reached

    async def _note_later(self) -> None:
        while self._noted < self._position.size:
            await self._clock.sleep(NOTE_SECONDS)
            await self._note()

    async def _note(self) -> None:
        """Note the head where its loss is seen; it is no part of an append, so that a failure is only told."""
        head = self._position.head
        if head.size <= self._noted:
            return
        data = {"origin": head.origin, "size": str(head.size), "link": head.link}
        try:
            stored = await find_stored(self._client, CONFIG_MAPS, _HEAD_NAME, _HEAD_NAMESPACE)
            if stored is None:
                meta = ObjectMeta(name=_HEAD_NAME, namespace=_HEAD_NAMESPACE)
                await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=data))
            elif not stored.data or segments.parse_head(stored.data).size < head.size:
                await self._client.update(CONFIG_MAPS, msgspec.structs.replace(stored, data=data))
            self._noted = head.size
        except NotLeading:
            log.debug("the head of the ledger is left to the next leader")
        except (APIStatusError, TransportError, LedgerDamaged) as err:
            if not (isinstance(err, APIStatusError) and _is_opposed(err)):
                log.warning("how far the ledger has reached cannot be noted", object=_HEAD, err=str(err))


_WHERE = f"the ledger in the namespace {NAMESPACE}"
_HEAD_NAME, _HEAD_NAMESPACE = wellknown.LEDGER_HEAD_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
_HEAD = f"{_HEAD_NAMESPACE}/{_HEAD_NAME}"


async def _noted(client: Client) -> Head | None:
    found = await find_stored(client, CONFIG_MAPS, _HEAD_NAME, _HEAD_NAMESPACE)
    # deploy/ has it without contents.
    return None if found is None or not found.data else segments.parse_head(found.data)


async def _segments(client: Client) -> AsyncIterator[ConfigMap]:
    """Of one moment, in the order of their names. Raises APIStatusError, TransportError."""
    options = ListOptions(limit=_PAGE)
    while True:
        page = await client.list(CONFIG_MAPS, NAMESPACE, options)
        for each in page.items:
            if segments.number_of(each.metadata.name) is not None:
                yield each
        if not page.continue_token:
            return
        options = ListOptions(limit=_PAGE, continue_token=page.continue_token)


def _is_once(entry: Entry) -> bool:
    return entry.kind in (INTENDED, ISSUED) and bool(entry.uid)


def _is_opposed(err: APIStatusError | TransportError) -> bool:
    """Not stored, as somebody else has written; or the open segment is gone, which the next read tells."""
    return isinstance(err, APIStatusError) and (err.code == 409 or (err.code == 404 and err.status.details is not None
            and err.status.details.name.startswith(segments.PREFIX)))  # fmt: skip


def _may_be_stored(err: APIStatusError | TransportError) -> bool:
    """429 was not; but it is worth another try all the same."""
    return isinstance(err, TransportError) or err.code == 429 or err.code >= 500


def _unavailable(what: str, err: Exception) -> LedgerUnavailable:
    missing = isinstance(err, APIStatusError) and err.code == 404
    hint = f"; kubectl create namespace {NAMESPACE}, or apply deploy/" if missing else ""
    return LedgerUnavailable(f"{_WHERE} cannot be {what}: {str(err) or type(err).__name__}{hint}")
