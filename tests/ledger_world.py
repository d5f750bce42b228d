"""Ledgers in files, made without a loop, and ways to meddle with them."""

from __future__ import annotations

import datetime as dt
import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from kubevouch.ledger import checkpoints, entries, keys, opening, reading, schema, verification
from kubevouch.ledger.checkpoints import Checkpoint, VerifierKey
from kubevouch.ledger.entries import Entry
from kubevouch.ledger.file import Encoded
from kubevouch.ledger.verification import Report

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = (entries.APPROVED, entries.INTENDED, entries.ISSUED)


def entry(number: int) -> Entry:
    """Three for each machine: it is approved, intended, and issued."""
    machine = number // 3
    digest = hashlib.sha256(b"%d" % machine).hexdigest()
    made = Entry(
        kind=KINDS[number % 3], at=NOW + dt.timedelta(seconds=number), signer="example.com/s",
        request=f"csr-{machine}", uid=digest[:36], requester="system:bootstrap:abcdef", digest=digest,
        subject=f"system:node:n{machine}", node=f"n{machine}", key=digest, token="abcdef",
    )  # fmt: skip
    if made.kind != entries.ISSUED:
        return made
    return msgspec.structs.replace(
        made, certificate=b"der", serial=digest[:32], not_before=NOW, names=(f"N{machine}.example.com",),
        not_after=NOW + dt.timedelta(days=30, seconds=number),
    )  # fmt: skip


def written(path: Path, count: int, *, checkpoint_at: tuple[int, ...] = ()) -> Path:
    """A ledger of ``count`` entries, closed, with checkpoints at some sizes."""
    with closing(opening.open_ledger(path, NOW)) as file:
        for begin, end in zip((0, *checkpoint_at), (*checkpoint_at, count), strict=True):
            if batch := [Encoded.of(each) for each in map(entry, range(begin, end))]:
                file.append(batch, NOW)
            if end in checkpoint_at:
                file.checkpoint(NOW + dt.timedelta(seconds=end))
    return path


def copied(path: Path, into: Path) -> Path:
    """All files of a closed ledger."""
    into.parent.mkdir(parents=True, exist_ok=True)
    for each in (path, path.with_name(path.name + ".mark"), keys.key_of(path)):
        shutil.copy(each, into.parent / each.name.replace(path.stem, into.stem, 1))
    return into


def change(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    """What somebody does who may write the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement, values)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def key_of(path: Path) -> VerifierKey:
    with closing(opening.connect_to_read(path)) as connection:
        return checkpoints.parse_key(reading.meta(connection, schema.KEY, path))


def verified(path: Path, key: VerifierKey | None = None, pinned: tuple[Checkpoint, ...] = ()) -> Report:
    with closing(opening.connect_to_read(path)) as connection:
        return verification.verify(connection, key or key_of(path), pinned)


def contents(path: Path) -> Iterator[object]:
    """Every row of every table."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for table in sorted(schema.TABLES):
            yield from connection.execute(f"SELECT * FROM {table}")
