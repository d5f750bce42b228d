"""A copy of a store: passes over both until one finds nothing to write.

A pass reads both in the order of keys and writes what differs. The first does the work, the next finds every key as it
should be, which is the verification. So there is nothing to remember for a copy that was ended in between: to run it
again goes on. The source is read at one revision; a server may go on with it.

The destination is raised above every revision that the source gave out before the first key is written, and again for a
source that went on since: so no object has a revision that somebody may have seen on other content. At the end it
forgets its history: whoever watched the source is told to list anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

import msgspec

from kubevouch.storage.copying import mark as marks
from kubevouch.storage.copying.differences import Difference, differences, is_equal
from kubevouch.storage.copying.errors import CopyError, NotFree
from kubevouch.storage.copying.mark import MARK_KEY, Mark
from kubevouch.storage.interface import (
    Compacted,
    KeyExists,
    Revision,
    RevisionConflict,
    Store,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
)
from kubevouch.storage.snapshot import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, ROOT, Record, Snapshot
from kubevouch.storage.write import microseconds
from kubevouch.util.clock import Clock

PASSES = 3
"""The first writes, the second finds nothing; a third for keys whose time ended in between."""

SNAPSHOTS = 3
"""Of a source that forgets the revision while it is read: etcd keeps five minutes of history. All work done stays."""

_BOUND = (b"k8s:enc:aesgcm:", b"k8s:enc:kms:v2:")
"""Encrypted values that can be decrypted under the key only at which they were written, prefix and all."""


class Source(Protocol):
    """Where a copy is from."""

    def snapshot(self, clock: Clock) -> AbstractAsyncContextManager[Snapshot]:
        """It as it is now. Raises StoreDamaged, StoreUnavailable."""
        ...


class Destination(Source, Protocol):
    """A store that can be written to. ``str`` of it is its name for people."""

    def present(self, clock: Clock) -> AbstractAsyncContextManager[Snapshot]:
        """As ``snapshot``, for its only writer: of keys that he has not come to yet it may have what is there by then.

        A snapshot keeps what it needs from being cleaned up, and a copy writes a store's whole content beside it.
        """
        ...

    async def make(self, clock: Clock) -> None:
        """Makes the store if there is none. Raises StoreInUse, StoreDamaged, StoreUnavailable."""
        ...

    async def open(self, clock: Clock) -> Store:
        """Raises StoreInUse, StoreDamaged, StoreUnavailable."""
        ...

    async def go_on_above(self, revision: Revision, clock: Clock, told: Told) -> Revision:
        """Has a store that nobody has open count on above ``revision``.

        Returns:
            Its revision from now on.

        Raises:
            CopyError: it cannot be raised that far.
            StoreInUse, StoreDamaged, StoreUnavailable
        """
        ...


class Progress(msgspec.Struct, frozen=True):
    """How far a copy is: ``step`` is one of "raise", "copy" and "verify", ``done`` counts revisions or keys."""

    step: str
    done: int
    of: int = 0


Told = Callable[[Progress], None]


class Copied(msgspec.Struct):
    """What a copy has done. ``revision`` is the destination's, of which ``raised`` were left out."""

    source_revision: int = 0
    source_in_use: bool = False
    revision: int = 0
    raised: int = 0
    keys: int = 0
    bytes: int = 0
    created: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def written(self) -> int:
        """Keys, in one way or another."""
        return self.created + self.updated + self.deleted


async def copy(
    source: Source,
    destination: Destination,
    clock: Clock,
    told: Told,
    *,
    replace: bool = False,
    above: Revision | None = None,
) -> Copied:
    """Has ``destination`` hold what ``source`` does now.

    Args:
        replace: what is at the destination may go, whatever it is.
        above: a revision that somebody may have seen, if the source does not know of it.

    Raises:
        NotFree: the destination holds something else.
        CopyError, StoreError
    """
    if source == destination:
        raise _onto_itself(destination)
    copied = Copied()
    compactions = written = 0
    while True:
        try:
            await _copy_once(source, destination, clock, told, replace, above, copied)
        except Compacted:
            compactions += 1
            if compactions == SNAPSHOTS:
                raise
        except (StoreDamaged, StoreInUse):
            raise
        except StoreUnavailable:
            # A member of etcd that was lost: as long as each attempt gets on, the next one goes on.
            if copied.written == written:
                raise
            written = copied.written
        else:
            return copied


async def _copy_once(
    source: Source,
    destination: Destination,
    clock: Clock,
    told: Told,
    replace: bool,
    above: Revision | None,
    copied: Copied,
) -> None:
    async with source.snapshot(clock) as wanted:
        await marks.expect_whole(wanted, str(source))
        await destination.make(clock)
        async with destination.present(clock) as found:
            if found.origin.store == wanted.origin.store:
                raise _onto_itself(destination)
            obstacle = marks.obstacle(await marks.survey(found), wanted.origin.store)
            if obstacle and not replace:
                raise NotFree(
                    f"{destination}: got a store with {obstacle}, expected an empty one",
                    "give another destination, or --replace, which takes away what is there",
                )
            before = found.revision
        copied.source_revision, copied.source_in_use = wanted.revision, wanted.origin.in_use
        beyond = max(wanted.revision, above or 0)
        if before <= beyond:
            copied.raised += await destination.go_on_above(Revision(beyond), clock, told) - before
        store = await destination.open(clock)
        try:
            await _write_mark(store, wanted, finished=False)
            await _copy_keys(_Task(wanted, destination, store, clock, told, copied))
            await store.compact(await store.revision())
            copied.revision = await _write_mark(store, wanted, finished=True)
        except (KeyExists, RevisionConflict) as error:
            raise CopyError(
                f"{destination}: got a key that somebody else has written ({error.key}), expected to be alone",
                "stop every server that uses it, then run this again: it goes on where it ended",
            ) from error
        finally:
            await store.close()


def _onto_itself(destination: Destination) -> CopyError:
    return CopyError(f"{destination}: got the source itself, expected another store")


async def _write_mark(store: Store, wanted: Snapshot, *, finished: bool) -> Revision:
    value = marks.encoded(Mark(marks.FORMAT, wanted.origin.store, wanted.revision, finished))
    found = await store.get(MARK_KEY)
    return await (store.create(MARK_KEY, value) if found is None else store.update(MARK_KEY, value, found.revision))


class _Task(msgspec.Struct):
    wanted: Snapshot
    destination: Destination
    store: Store
    clock: Clock
    told: Told
    copied: Copied


async def _copy_keys(task: _Task) -> None:
    left: str | None = ""
    for number in range(PASSES):
        left = await _pass(task, "verify" if number else "copy")
        if left is None:
            return
    raise CopyError(
        f"{task.destination}: got another value of {left} than was written, expected to be alone",
        "stop every server that uses it; kubevouch store verify says whether it is whole",
    )


async def _pass(task: _Task, step: str) -> str | None:
    """Writes what differs; returns one of the keys that did, None if none."""
    copied = task.copied
    last: str | None = None
    copied.keys = copied.bytes = 0
    writes: list[Difference] = []
    size = 0
    async with task.destination.present(task.clock) as found:
        async with aclosing(differences(task.wanted, found, microseconds(task.clock))) as each:
            async for difference in each:
                wanted = difference.wanted
                if wanted is not None:
                    copied.keys += 1
                    copied.bytes += len(wanted.value)
                    if copied.keys % MAX_BATCH_RECORDS == 0:
                        task.told(Progress(step, copied.keys))
                    _expect_movable(wanted, task.wanted.origin.prefix, found.origin.prefix)
                if is_equal(difference, microseconds(task.clock)):
                    continue
                writes.append(difference)
                size += len(wanted.value) if wanted is not None else 0
                last = difference.key
                if len(writes) >= MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES:
                    await _carry_out(task, writes)
                    writes, size = [], 0
        await _carry_out(task, writes)
    task.told(Progress(step, copied.keys))
    return last


def _expect_movable(record: Record, prefix: str, to: str) -> None:
    """Raises CopyError for what would mean nothing at the destination."""
    if prefix != to and record.value.startswith(_BOUND):
        raise CopyError(
            f"{record.key}: got a value encrypted for keys below {prefix}, which nobody could decrypt below {to}",
            "give the destination the same prefix; or rewrite the source unencrypted, copy, and encrypt again",
        )
    if not record.key.startswith(f"{ROOT}/"):
        raise CopyError(f"got the key {record.key!r}, expected those of a cluster, below {ROOT}/")


async def _carry_out(task: _Task, writes: list[Difference]) -> None:
    """All at once, so that they share commits; whichever fails, the others are waited for."""
    outcomes = await asyncio.gather(*(_write(task, each) for each in writes), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _write(task: _Task, difference: Difference) -> None:
    _, wanted, found = difference
    if wanted is None:
        assert found is not None  # a difference is about one of the two
        try:
            await task.store.delete(found.key, found.revision)
        except RevisionConflict as conflict:
            if conflict.current is not None or found.expires is None:  # gone by itself
                raise
        task.copied.deleted += 1
        return
    ttl = None
    if wanted.expires is not None:
        ttl = (wanted.expires - microseconds(task.clock)) / 1_000_000
        if ttl <= 0:
            return
    if found is None:
        await task.store.create(wanted.key, wanted.value, ttl=ttl)
        task.copied.created += 1
    else:
        await task.store.update(wanted.key, wanted.value, found.revision, ttl=ttl)
        task.copied.updated += 1
