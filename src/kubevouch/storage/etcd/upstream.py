"""The one watch of a whole cluster's keys that feeds all watches of a process, and proofs that nothing is missing.

A server that waits for its watch to reach a revision cannot know whether a write of somebody else's, outside of its
keys, made that revision. It asks etcd for progress, on the same stream. Before 3.4.31 and 3.5.13 the answer could
overtake events; there a write of our own is what the watch has to bring.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.client import ATTEMPT_SECONDS, EtcdClient, WatchStream
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.keys import Keys
from kubevouch.storage.feed import MAX_BUFFERED_BYTES, MAX_BUFFERED_EVENTS, Feed, Stretch
from kubevouch.storage.interface import Compacted, EventBatch, KeyValue, Revision, StoreEvent, StoreUnavailable
from kubevouch.storage.write import FIRST_REVISION
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("storage.etcd")

PROGRESS_SECONDS = 0.1
"""Between two requests for progress: etcd does not answer while a watch catches up."""
# etcd looks ten times a second for watches that have to catch up.
_CATCHING_UP_SECONDS = 0.3
_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 0.05, 1.0

# A key of one segment, where no kind is: written and deleted at once, and shown to nobody.
_MARK = "progress.kubevouch.io"


def tells_progress(version: str) -> bool:
    """Whether an etcd of this version answers a request for progress in order with the events."""
    found = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", version)
    if found is None:
        return False
    major, minor, patch = (int(part) for part in found.groups())
    least = {(3, 4): 31, (3, 5): 13}
    return (major, minor) > (3, 5) or ((major, minor) in least and patch >= least[major, minor])


class Gap(Exception):
    """Events are missing: they were compacted before they were told. ``oldest`` is what etcd still has, if it said."""

    def __init__(self, oldest: Revision | None = None) -> None:
        super().__init__("events were compacted")
        self.oldest = oldest


class Upstream:
    """Publishes every write to ``feed``, in order, from its revision on."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock, revision: Revision) -> None:
        self.feed = Feed(revision, self._history)
        self._client = client
        self._keys = keys
        self._clock = clock
        self._mark = keys.root + _MARK.encode()
        self._wanted = Revision(0)
        self._stream: WatchStream | None = None
        self._proving: asyncio.Task[None] | None = None
        self._tells_progress = False
        self._cut_off = False
        self._following = asyncio.ensure_future(self._follow())

    def want(self, revision: Revision) -> None:
        """See to it that the feed reaches ``revision``, which etcd has."""
        if revision <= self.feed.revision or self._following.done():
            return
        self._wanted = max(self._wanted, revision)
        if self._proving is None or self._proving.done():
            self._proving = asyncio.ensure_future(self._prove())

    def expect_running(self) -> None:
        """Raises StoreUnavailable."""
        if self._following.done():
            raise StoreUnavailable("etcd: got a watch that has ended, expected it to run; restart the server")

    async def close(self) -> None:
        tasks = {task for task in (self._following, self._proving) if task is not None}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self.feed.close()

    # -------------------------------------------------------------- the live stream

    async def _follow(self) -> None:
        pauses = backoff.CalmingBackoff(lambda: backoff.exponential(_PAUSE_SECONDS, _MOST_PAUSE_SECONDS), 10.0)
        while True:
            try:
                await self._follow_once()
            except Gap:
                log.warning("the store's events were compacted before they came, watches begin anew")
                await self._skip()
            except (CallFailed, StoreUnavailable) as err:
                # Once for each time, however long it takes.
                tell = log.debug if self._cut_off else log.warning
                tell("the watch of etcd was cut off, going on", err=str(err))
                self._cut_off = True
            await self._clock.sleep(pauses.next(self._clock.monotonic()))

    async def _follow_once(self) -> None:
        self._tells_progress = await self._all_tell_progress()
        stream = await self._client.watch()
        try:
            # From there on etcd has to catch up with nothing, if nothing happened; that this is all kept is seen after.
            after = self.feed.revision
            await stream.create(self._keys.root, self._keys.root_end, Revision(after + 1))
            answer = await stream.read()
            await self._expect_kept(after)
            self._stream, self._cut_off = stream, False
            while True:
                events, reached = self._told(answer, self.feed.revision)
                if events:
                    self.feed.publish(events, reached)
                elif reached > self.feed.revision:
                    self.feed.progress(reached)
                answer = await stream.read()
        finally:
            self._stream = None
            stream.close()

    async def _expect_kept(self, revision: Revision) -> None:
        """A deletion right after ``revision`` is not told by every version once it was compacted. Raises Gap."""
        request = messages.RangeRequest(key=self._mark, revision=revision)
        try:
            await self._client.call(messages.RANGE, request, ATTEMPT_SECONDS)
        except CallFailed as err:
            if err.is_compacted:
                raise Gap from err
            raise

    async def _skip(self) -> None:
        try:
            now = await self._client.call(messages.RANGE, messages.RangeRequest(key=self._mark), ATTEMPT_SECONDS)
        except CallFailed as err:
            log.warning("etcd does not say its revision", err=str(err))
        else:
            self.feed.skip(Revision(now.header.revision))

    def _told(self, answer: Any, after: Revision) -> tuple[EventBatch, Revision]:
        """The events above ``after``, and up to where everything is known now.

        Raises:
            Gap: the watch began below what is kept.
            StoreUnavailable: etcd ended the watch.
        """
        if answer.compact_revision:
            raise Gap(Revision(answer.compact_revision))
        if answer.canceled:
            raise StoreUnavailable(f"etcd ended the watch: {answer.cancel_reason or 'no reason given'}")
        if answer.events:
            reached = Revision(answer.events[-1].kv.mod_revision)
            return list(self._events(answer.events, after)), max(after, reached)
        # The answer to a request has no watch of its own; what a watch tells by itself is in order in every version.
        if answer.created or (answer.watch_id < 0 and not self._tells_progress):
            return [], after
        return [], max(after, Revision(answer.header.revision))

    def _events(self, events: Iterable[Any], after: Revision) -> Iterable[StoreEvent]:
        for event in events:
            kv = event.kv
            if kv.mod_revision <= after or kv.key == self._mark:
                continue
            try:
                key = self._keys.text(kv.key)
            except ValueError:
                continue  # none of ours
            deleted = event.type == messages.DELETE
            previous = None
            if event.HasField("prev_kv"):
                previous = KeyValue(key, event.prev_kv.value, Revision(event.prev_kv.mod_revision))
            elif deleted or kv.create_revision != kv.mod_revision:
                raise Gap  # what was there before is compacted
            yield StoreEvent(key, Revision(kv.mod_revision), None if deleted else kv.value, previous)

    # -------------------------------------------------------------- proofs

    async def _prove(self) -> None:
        if not self._tells_progress:
            await self._clock.sleep(PROGRESS_SECONDS)  # most revisions are writes that the watch is about to bring
        while self.feed.revision < self._wanted:
            stream = self._stream
            try:
                if stream is not None and self._tells_progress:
                    await stream.request_progress()
                elif stream is not None:
                    await self._write_mark()
            except CallFailed as err:
                log.debug("no progress", err=str(err))
            await self._clock.sleep(PROGRESS_SECONDS)

    async def _write_mark(self) -> None:
        put = messages.RequestOp(request_put=messages.PutRequest(key=self._mark))
        delete = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=self._mark))
        for op in (put, delete):
            await self._client.write(messages.TXN, messages.TxnRequest(success=[op]))

    async def _all_tell_progress(self) -> bool:
        statuses = await self._client.statuses()
        return bool(statuses) and all(tells_progress(status.version) for status in statuses)

    # -------------------------------------------------------------- the past

    async def _history(self, prefix: str, after: Revision, upto: Revision) -> Stretch:
        stream = await self._watch()
        found: EventBatch = []
        reached, size = after, 0
        asking = asyncio.ensure_future(self._keep_proving(stream))
        try:
            await stream.create(self._keys.root, self._keys.root_end, max(after, FIRST_REVISION))
            while reached < upto and len(found) <= MAX_BUFFERED_EVENTS and size <= MAX_BUFFERED_BYTES:
                events, reached = self._told(await stream.read(), reached)
                for event in events:
                    if event.revision <= upto and event.key.startswith(prefix):
                        found.append(event)
                        size += len(event.value or b"")
        except Gap as gap:
            raise Compacted(after, gap.oldest or await self.oldest(after)) from gap
        except CallFailed as err:
            raise err.as_store_error(prefix) from err
        finally:
            asking.cancel()
            stream.close()
            await asyncio.wait({asking})
        return Stretch(found, min(reached, upto))

    async def _keep_proving(self, stream: WatchStream) -> None:
        """Until cancelled: the end of a stretch may be a revision of somebody else's."""
        try:
            await self._clock.sleep(_CATCHING_UP_SECONDS)  # most stretches end with a write of ours
            if not self._tells_progress:
                await self._write_mark()
                return
            while True:
                await stream.request_progress()
                await self._clock.sleep(PROGRESS_SECONDS)
        except CallFailed as err:
            log.debug("no progress", err=str(err))

    async def oldest(self, compacted: Revision) -> Revision:
        """What etcd can still read, given a revision that it has compacted. Raises StoreUnavailable."""
        stream = await self._watch()
        try:
            await stream.create(self._keys.root, self._keys.root_end, max(compacted, FIRST_REVISION))
            while not (answer := await stream.read()).compact_revision:
                if answer.events or answer.canceled:
                    return FIRST_REVISION
            return Revision(answer.compact_revision)
        except CallFailed as err:
            raise err.as_store_error(str(compacted)) from err
        finally:
            stream.close()

    async def _watch(self) -> WatchStream:
        try:
            return await self._client.watch()
        except CallFailed as err:
            raise err.as_store_error("") from err
