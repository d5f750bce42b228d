"""The log backend: one JSON event a line, in a file that is rotated by size and pruned by number and age.

Names of rotated files are kube-apiserver's (``audit-2026-01-31T12-00-00.000.log``), so that shippers find them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kubevouch.server.audit.batch import BUFFERED, Batches
from kubevouch.server.audit.options import STDOUT, LogFileOptions, Mode
from kubevouch.util import files
from kubevouch.util.clock import UTC, Clock

# A write holds at most so many events: who waits for the disk shares the next write.
_BATCH_EVENTS = 1000
_DEFAULT_MEGABYTES = 100  # lumberjack's, which kube-apiserver rotates with
_STAMP = "%Y-%m-%dT%H-%M-%S"


class RotatingFile:
    """Blocking file operations; run in a thread.

    Several processes may write to one path. Whoever writes holds a shared lock of the file (flock(2)), whoever rotates
    it the exclusive one: so no line goes into a file that is being compressed, and a file is rotated once.

    Args:
        now: names rotated files and tells their age.
    """

    def __init__(self, options: LogFileOptions, now: Callable[[], dt.datetime]) -> None:
        self._options = options
        self._now = now
        self._path = Path(options.path)
        self._limit = (options.max_size or _DEFAULT_MEGABYTES) * 1024 * 1024
        self._file: BinaryIO | None = None

    def open(self) -> None:
        """Raises ``OSError`` at once for a path that cannot be written, not at the first event."""
        descriptor = files.open_append(self._path)
        self._file = os.fdopen(descriptor, "ab", buffering=0)

    def write(self, lines: bytes) -> None:
        """Append whole lines, in a fresh file if they do not fit. Raises ``OSError``."""
        while not self._written(lines):
            self.close()

    def _written(self, lines: bytes) -> bool:
        """False if the file is not the one at the path any more."""
        if self._file is None:
            self.open()
        assert self._file is not None  # opened just now
        with files.shared(self._file):
            size = self._size_at_path()
            if size is None:
                return False
            if not size or size + len(lines) <= self._limit:
                view = memoryview(lines)
                while view:
                    view = view[self._file.write(view) or 0 :]
                return True
        self._rotate()
        return False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _size_at_path(self) -> int | None:
        """Of the file that is open; None if another one, or none, is at the path."""
        assert self._file is not None
        ours = os.fstat(self._file.fileno())
        with suppress(FileNotFoundError):
            if os.path.samestat(ours, self._path.stat()):
                return ours.st_size
        return None

    def _rotate(self) -> None:
        assert self._file is not None
        with files.shared(self._file, alone=True):
            if self._size_at_path() is None:
                return
            self._path.rename(self._backup_name())
            self._prune()

    def _backup_name(self) -> Path:
        when = self._now().astimezone(UTC)
        while True:
            stamp = f"{when:{_STAMP}}.{when.microsecond // 1000:03}"
            backup = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
            if not backup.exists() and not backup.with_name(backup.name + ".gz").exists():
                return backup
            when += dt.timedelta(milliseconds=1)

    def _prune(self) -> None:
        """A backup that cannot be removed or compressed must not cost an event."""
        backups = self._backups()
        doomed = backups[self._options.max_backups :] if self._options.max_backups else []
        if self._options.max_age_days:
            oldest = self._now() - dt.timedelta(days=self._options.max_age_days)
            doomed += [(when, path) for when, path in backups if when < oldest and (when, path) not in doomed]
        for _, path in doomed:
            with suppress(OSError):
                path.unlink()
        if self._options.compress:
            for each in backups:
                if each not in doomed and each[1].suffix != ".gz":
                    with suppress(OSError):
                        _compress(each[1])

    def _backups(self) -> list[tuple[dt.datetime, Path]]:
        """Rotated files, newest first."""
        found = []
        for path in self._path.parent.iterdir():
            plain = path.name.removesuffix(".gz")
            if not (plain.startswith(f"{self._path.stem}-") and plain.endswith(self._path.suffix)):
                continue
            stamp = plain[len(self._path.stem) + 1 : len(plain) - len(self._path.suffix)]
            with suppress(ValueError):
                found.append((dt.datetime.strptime(stamp, f"{_STAMP}.%f").replace(tzinfo=UTC), path))
        return sorted(found, reverse=True)


def _compress(path: Path) -> None:
    packed = path.with_name(path.name + ".gz")
    with (
        os.fdopen(files.create(packed), "wb") as target,
        path.open("rb") as source,
        gzip.GzipFile(fileobj=target, mode="wb") as out,
    ):
        shutil.copyfileobj(source, out)
    path.unlink()


class LogFile:
    """An :class:`kubevouch.server.audit.interface.AuditBackend`. Raises ``OSError`` if the file cannot be written."""

    name = "log"

    def __init__(self, options: LogFileOptions, clock: Clock, on_lost: Callable[[str, int], None]) -> None:
        self._file = None if options.path == STDOUT else RotatingFile(options, clock.now)
        if self._file is not None:
            self._file.open()
        batch, truncate = options.batch, options.truncate
        self._batches = Batches(
            self._write,
            clock,
            batch,
            mode=Mode(options.mode),
            most=batch.max_size if batch.throttle_enable else max(batch.max_size, _BATCH_EVENTS),
            most_bytes=truncate.max_batch_size if truncate.enabled else None,
            on_dropped=partial(on_lost, BUFFERED),
            on_lost=partial(on_lost, self.name),
        )

    def record(self, event: bytes) -> asyncio.Future[bool] | None:
        return self._batches.record(event)

    async def _write(self, events: list[bytes]) -> None:
        await asyncio.to_thread(self._append, b"".join(event + b"\n" for event in events))

    def _append(self, lines: bytes) -> None:
        if self._file is not None:
            self._file.write(lines)
        else:
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()

    async def close(self) -> None:
        await self._batches.close()
        if self._file is not None:
            self._file.close()
