"""The key that says of a store that it is a copy, of which other one, and whether all of it is there.

It is written before the first key of a copy and again after the last was verified. Its own revision is the newest of a
finished copy to which nobody has written since; so a later copy from the same source may go on where this one ended.
"""

from __future__ import annotations

from contextlib import aclosing

import msgspec

from kubevouch.storage.copying.errors import Unfinished
from kubevouch.storage.interface import Revision, Store, StoreDamaged
from kubevouch.storage.snapshot import Record, Snapshot

MARK_KEY = "/registry/kubevouch.io/storecopy"
"""Below no resource of ours, and of no other group; kube-apiserver reads no such key."""

_SCRATCH = ("/registry/progress.kubevouch.io", "/registry/raised.kubevouch.io")
OWN_KEYS = frozenset({MARK_KEY, *_SCRATCH})
"""Keys of one store, which are no part of what is copied; the latter are there for a moment, in etcd."""

FORMAT = 1


class Mark(msgspec.Struct, frozen=True, rename="camel"):
    """What the mark says.

    Args:
        source: ``Origin.store`` of what was copied.
        source_revision: of the source when it was read.
        finished: whether every key was found to be there; False from the first write on.
    """

    format: int
    source: str
    source_revision: int
    finished: bool


def encoded(mark: Mark) -> bytes:
    return msgspec.json.encode(mark) + b"\n"


def decoded(value: bytes) -> Mark:
    """Raises StoreDamaged."""
    try:
        mark = msgspec.json.decode(value, type=Mark)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreDamaged(f"got a mark of a copy at {MARK_KEY} that cannot be read ({error})") from error
    if mark.format != FORMAT:
        raise StoreDamaged(f"got a mark of a copy of format {mark.format}, expected {FORMAT}; use the newer kubevouch")
    return mark


async def expect_finished(store: Store, name: str) -> None:
    """For whoever is about to serve from the store ``name``.

    Raises:
        Unfinished: half of its keys may be missing: who denied, who was removed, what a role permits.
        StoreUnavailable
    """
    found = await store.get(MARK_KEY)
    if found is not None:
        _expect_finished(found.value, name)


async def expect_whole(snapshot: Snapshot, name: str) -> None:
    """For whoever is about to copy all of the store ``name``. Raises as :func:`expect_finished`."""
    async with aclosing(snapshot.batches(MARK_KEY)) as batches:
        async for batch in batches:
            for record in batch:
                if record.key == MARK_KEY:
                    _expect_finished(record.value, name)


def _expect_finished(value: bytes, name: str) -> None:
    if not decoded(value).finished:
        raise Unfinished(
            f"{name}: got a store to which a copy was not finished, expected a whole one",
            "run kubevouch store copy, or store restore, again: it goes on where it ended",
        )


class Survey(msgspec.Struct, frozen=True):
    """What is in a store: how many keys besides the mark, the newest of their revisions, and the mark."""

    keys: int
    newest: Revision
    mark: Record | None


async def survey(found: Snapshot) -> Survey:
    """Raises as ``Snapshot.batches``."""
    keys, newest, mark = 0, Revision(0), None
    async for batch in found.batches():
        for record in batch:
            if record.key == MARK_KEY:
                mark = record
            elif record.key not in OWN_KEYS:
                keys, newest = keys + 1, max(newest, record.revision)
    return Survey(keys, newest, mark)


def obstacle(found: Survey, source: str) -> str:
    """What is at a destination that a copy of ``source`` would replace unasked; an empty text if nothing is."""
    if found.mark is None:
        return f"{found.keys} keys" if found.keys else ""
    mark = decoded(found.mark.value)
    if mark.source != source:
        return f"a copy of another store ({mark.source}, not {source})"
    if mark.finished and found.newest > found.mark.revision:
        return f"a copy of this store that was written to since, up to revision {found.newest}"
    return ""
