"""Rows in and out of SQLite, many with one step.

The sqlite3 module gives the interpreter lock away around every step of a statement and then waits for it, up to the
switch interval (5 ms) each time while the loop is busy. Measured on a busy loop, a batch of 64 inserts took 226 ms row
by row and 17 ms as one statement, a list of 1,000 rows 720 ms and 36 ms. Therefore a batch is written and a page read
with a fixed number of statements that give one row at most: numbers and keys as one JSON text, values as one blob.

Casting a blob to text and back does not change its bytes, and ``group_concat`` joins bytes (sqlite.org/lang_expr.html,
lang_aggfunc.html). Should a future SQLite see that differently, the checksums tell.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubevouch.storage.interface import KeyValue, Revision
from kubevouch.storage.sqlite.errors import damaged

T = TypeVar("T")

Parameters = Sequence[int | str | bytes] | Mapping[str, int | str | bytes]

UNBOUNDED = b""
"""Above every key: SQLite orders any blob after any text."""


class Version(msgspec.Struct, array_like=True, frozen=True):
    """What is known of a row of ``version`` besides key and value. ``size`` None: there is no value."""

    revision: int
    previous: int
    deleted: int
    expires: int | None
    checksum: int
    size: int | None


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """A key and its version, in a page."""

    key: str
    version: Version


class Change(msgspec.Struct, array_like=True, frozen=True):
    """A row of history: the write, and the version before it if there was one."""

    key: str
    version: Version
    previous: Version | None


class Row(msgspec.Struct, frozen=True):
    """A row of ``version`` to be written."""

    revision: Revision
    previous: int
    expires: int | None
    key: str
    value: bytes | None


def version_sql(alias: str) -> str:
    """The JSON of a Version."""
    columns = ("revision", "previous", "deleted", "expires", "checksum")
    return f"json_array({', '.join(f'{alias}.{column}' for column in columns)}, length({alias}.value))"


def values_sql(expression: str) -> str:
    """All values of a group as one blob, NULL left out."""
    return f"CAST(group_concat(CAST({expression} AS TEXT), '') AS BLOB)"


_NUMBERS = struct.Struct("<qqqq")
_NO_TIME = -1


def checksum(revision: int, previous: int, deleted: int, expires: int | None, key: str, value: bytes) -> int:
    """Of a whole row: a bit that flips in ``deleted`` or ``expires`` would take an object away."""
    numbers = _NUMBERS.pack(revision, previous, deleted, _NO_TIME if expires is None else expires)
    return zlib.crc32(value, zlib.crc32(key.encode(), zlib.crc32(numbers)))


class Values:
    """Takes the joined values apart again, in the order in which they were joined."""

    def __init__(self, joined: bytes | None, path: Path) -> None:
        self._joined = joined or b""
        self._at = 0
        self._path = path

    def take(self, key: str, version: Version) -> KeyValue:
        """The next value, empty for a deletion. Raises StoreDamaged, after which the next can still be taken."""
        size = version.size or 0
        value = self._joined[self._at : self._at + size]
        self._at += size
        verify_row(self._path, key, version, value)
        return KeyValue(key, value, Revision(version.revision))


def verify_row(path: Path, key: str, version: Version, value: bytes) -> None:
    """Raises StoreDamaged for a row that is not what was written."""
    numbers = (version.revision, version.previous, version.deleted, version.expires)
    if checksum(*numbers, key, value) != version.checksum or (version.size is None) != bool(version.deleted):
        raise damaged(path, f"a wrong checksum at revision {version.revision} of {key}")


def decoded(text: str, shape: type[T], path: Path) -> T:
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise damaged(path, f"rows that cannot be read ({error})") from error


def one_row(connection: sqlite3.Connection, sql: str, parameters: Parameters = ()) -> tuple[Any, ...]:
    """The only row of a statement that always gives one."""
    row: tuple[Any, ...] = connection.execute(sql, parameters).fetchone()
    return row


# Position in the JSON array: 0 revision, 1 previous, 2 deleted, 3 expires, 4 checksum, 5 key, 6 offset, 7 size.
# substr() of an empty blob is NULL, and an empty value is not.
_INSERT_VERSIONS = """
INSERT INTO version (revision, previous, deleted, expires, checksum, key, value)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    CASE WHEN value ->> 2 THEN NULL ELSE coalesce(substr(?2, (value ->> 6) + 1, value ->> 7), x'') END
FROM json_each(?1)
"""

# A key that comes twice in a batch ends with its last row: json_each gives them in order.
_UPDATE_CURRENT = """
INSERT INTO current (key, revision, deleted, expires)
SELECT value ->> 5, value ->> 0, value ->> 2, value ->> 3 FROM json_each(?1) WHERE true
ON CONFLICT (key) DO UPDATE
SET revision = excluded.revision, deleted = excluded.deleted, expires = excluded.expires
"""


def insert_rows(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Appends to ``version`` and brings ``current`` up to date, inside the caller's transaction."""
    described = []
    values = []
    offset = 0
    for row in rows:
        value = row.value or b""
        deleted = int(row.value is None)
        crc = checksum(row.revision, row.previous, deleted, row.expires, row.key, value)
        described.append((row.revision, row.previous, deleted, row.expires, crc, row.key, offset, len(value)))
        values.append(value)
        offset += len(value)
    text = msgspec.json.encode(described).decode()
    connection.execute(_INSERT_VERSIONS, (text, b"".join(values)))
    connection.execute(_UPDATE_CURRENT, (text,))
