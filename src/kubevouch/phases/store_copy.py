"""Copies of a store: to another store, to a file and from one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from kubevouch.machinery.text.times import Time
from kubevouch.storage.copying.backup_file import BackupFile, End, Header, is_backup, write_backup
from kubevouch.storage.copying.copy import Copied, Destination, Source, Told, copy
from kubevouch.storage.copying.mark import expect_whole
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.interface import Revision, StoreUnavailable
from kubevouch.storage.options import EtcdSpec, InvalidStoreSpec, MemorySpec, parse_store
from kubevouch.storage.sqlite import acceptance
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.util.clock import Clock

LEFT_OUT_IN_ETCD = 100_000
"""How far above a backup's revision an etcd goes on: each number costs a write there. It is what a cluster of a
thousand machines writes in a quarter of an hour."""


def destination(text: str, data_dir: Path, etcd: EtcdOptions | None = None) -> Destination:
    """What ``text`` names, as for ``kubevouch up --store``; a path is the file of a store.

    Args:
        etcd: how to get into the etcd that is named.

    Raises:
        InvalidStoreSpec
    """
    try:
        spec = parse_store(text, data_dir, etcd)
    except InvalidStoreSpec:
        if text.partition(":")[0] in ("sqlite", "memory", "etcd") or "\x00" in text or not text:
            raise
        return SQLitePlace(Path(text))
    if isinstance(spec, MemorySpec):
        raise InvalidStoreSpec("got a store in memory, which nobody but its process has")
    if isinstance(spec, EtcdSpec):
        return etcd_place(spec)
    return SQLitePlace(spec.path)


def etcd_place(spec: EtcdSpec) -> Destination:
    """Raises StoreUnavailable: without the extra there is no client."""
    try:
        from kubevouch.storage.etcd.place import EtcdPlace
    except ImportError as err:
        raise StoreUnavailable("a store on etcd needs the extra: pip install 'kubevouch[etcd]'") from err
    return EtcdPlace(spec.etcd, str(spec))


def source(text: str, data_dir: Path, etcd: EtcdOptions | None = None, *, missing_ok: bool = False) -> Source:
    """As :func:`destination`, or the file of a backup.

    Raises:
        InvalidStoreSpec
        OSError: there is no such file.
    """
    place = destination(text, data_dir, etcd)
    if not isinstance(place, SQLitePlace) or (missing_ok and not place.path.exists()):
        return place
    if is_backup(place.path):
        return BackupFile(place.path)
    return place


async def backup(place: Source, into: Path, clock: Clock, told: Callable[[int], None]) -> tuple[Header, End]:
    """Raises CopyError, StoreError, OSError."""
    async with place.snapshot(clock) as snapshot:
        await expect_whole(snapshot, str(place))
        return await write_backup(snapshot, into, str(Time.of(clock.now())), told)


async def restore(
    file: BackupFile, place: Destination, clock: Clock, told: Told, *, replace: bool, above: int | None
) -> Copied:
    """Has ``place`` hold what a backup does, above every revision that somebody may have seen since.

    ``above`` is the newest of these if it is known.

    Raises:
        CopyError, StoreError, OSError
    """
    return await _restored(file, place, clock, told, replace=replace, above=above)


async def restore_file(
    path: Path, place: Destination, clock: Clock, told: Told, *, replace: bool, above: int | None
) -> Copied:
    """As :func:`restore`, from the file of a store on SQLite that nobody has gone on with since it was copied."""
    return await _restored(SQLitePlace(path), place, clock, told, replace=replace, above=above)


async def _restored(
    file: Source, place: Destination, clock: Clock, told: Told, *, replace: bool, above: int | None
) -> Copied:
    async with file.snapshot(clock) as snapshot:
        newest = snapshot.revision
    return await copy(file, place, clock, told, replace=replace, above=above_all(place, newest, above, clock.now()))


def above_all(place: Destination, newest: Revision, known: int | None, now: dt.datetime) -> Revision:
    """The revision to go on above with a copy of which ``newest`` is the last; nobody can say what came after it."""
    if known is not None:
        return Revision(max(newest, known))
    if isinstance(place, SQLitePlace):
        return acceptance.unseen(newest, now)
    return Revision(newest + LEFT_OUT_IN_ETCD)
