"""How a ledger's files come into being, are opened, read beside their writer, and copied."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kubevouch.ledger import checkpoints, keys, proofs, reading, schema
from kubevouch.ledger.checkpoints import HEAD, checkpoint_of
from kubevouch.ledger.errors import damaged, translated
from kubevouch.ledger.file import LedgerFile
from kubevouch.ledger.interface import LedgerInUse, LedgerUnavailable
from kubevouch.storage.interface import Revision, StoreDamaged, StoreInUse
from kubevouch.storage.sqlite.files import Lock, companion
from kubevouch.storage.sqlite.mark import Mark, Noted, mark_of, read_mark, write_mark
from kubevouch.storage.sqlite.schema import run_script
from kubevouch.util import files
from kubevouch.util.held_files import HeldFiles

DEFAULT_FILE = "ledger.db"
"""In the data directory of ``kubevouch up``."""
ORIGIN_PREFIX = "kubevouch.io/ledger/"
BUSY_SECONDS = 5.0

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_WRITER = """
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -8192;
"""
_READER = """
PRAGMA query_only = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -4096;
"""


def open_ledger(path: Path, now: dt.datetime) -> LedgerFile:
    """The ledger at ``path``, which is made if there is none.

    Raises:
        LedgerInUse, LedgerDamaged, LedgerUnavailable
    """
    path = path.resolve()
    try:
        with ExitStack() as undo:
            files.make_folder(path.parent, files.PRIVATE_FOLDER)
            lock = Lock(path)
            undo.callback(lock.release)
            _create_if_missing(path, now)
            expect_ledger(path)
            _expect_length(path)
            _make_private(path)
            connection = _connected(path)
            undo.callback(connection.close)
            origin = reading.meta(connection, schema.ORIGIN, path)
            key = _key_of(path, connection)
            mark = _mark(path, connection)
            undo.callback(mark.close)
            copied = reading.one(connection, "SELECT value FROM meta WHERE name = 'copied'")
            # By now SQLite has made all of its own.
            held = HeldFiles((path, mark_of(path), *(companion(path, each) for each in ("-wal", "-shm", ".lock"))))
            opened = LedgerFile(path, connection, lock, mark, origin, key, copied or "", held)
            opened.expect_whole()
            connection.execute("DELETE FROM meta WHERE name = 'copied'")
            undo.pop_all()
            return opened
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except StoreInUse as error:
        raise LedgerInUse(str(error).replace("a store", "a ledger")) from error
    except StoreDamaged as error:
        raise damaged(path, error.got or str(error)) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "octets where text belongs") from error
    except files.UnsafeFileError as error:
        raise LedgerUnavailable(f"{path}: {error} at {error.filename}; {error.hint}") from error
    except OSError as error:
        where = f" for {error.filename}" if error.filename else ""
        raise LedgerUnavailable(
            f"{path}: got {(error.strerror or str(error)).lower()}{where}, expected files that this user may write"
        ) from error


def connect_to_read(path: Path, *, beside_writer: bool = False) -> sqlite3.Connection:
    """A connection that may only read the ledger at ``path``, also while a process writes it.

    Raises:
        LedgerDamaged, LedgerUnavailable
    """
    path = path.resolve()
    try:
        expect_ledger(path)
        log = companion(path, "-wal")
        # Without a log there is nothing to bring into order, and SQLite would leave files of its own behind.
        alone = "" if beside_writer or (log.exists() and log.stat().st_size) else "&immutable=1"
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro{alone}", uri=True, isolation_level=None, check_same_thread=False,
            timeout=BUSY_SECONDS,
        )  # fmt: skip
        try:
            run_script(connection, _READER)
            _expect_layout(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except OSError as error:
        raise LedgerUnavailable(
            f"{path}: got {(error.strerror or str(error)).lower()}, expected a ledger that this user may read"
        ) from error


def expect_ledger(path: Path) -> None:
    """Raises LedgerDamaged for a file that is none of ours or was cut, before SQLite has touched it. Raises OSError."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    # sqlite.org/fileformat2.html, section 1.3
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise damaged(path, f"a file of {path.stat().st_size} bytes that does not begin as SQLite's do")
    application = int.from_bytes(header[68:72], "big")
    if application != schema.APPLICATION_ID:
        raise damaged(path, f"an SQLite file of another program (application id {application:#010x})")
    layout = int.from_bytes(header[60:64], "big")
    if layout > schema.LAYOUT:
        raise damaged(path, f"layout {layout}, which a later kubevouch has made, where this one knows {schema.LAYOUT}")


def _expect_length(path: Path) -> None:
    """While nobody else has it open: the log may not have been copied whole."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    if path.stat().st_size < page * pages and header[24:28] == header[92:96]:
        raise damaged(path, f"a file of {path.stat().st_size} bytes that was cut, it had {page * pages}")


def _expect_layout(connection: sqlite3.Connection, path: Path) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    others = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchone()[0]
    if tables != schema.TABLES or others:
        raise damaged(path, "other tables, views or triggers than those of a ledger")


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        run_script(connection, _WRITER)
        _expect_layout(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_if_missing(path: Path, now: dt.datetime) -> None:
    """Made under another name and moved into place whole: a file that is empty or half written is damage."""
    if path.exists():
        return
    log = companion(path, "-wal")
    if log.exists() and log.stat().st_size:
        raise damaged(path, f"no file, but entries that belong to it in {log.name}")
    noted = read_mark(path)
    if noted is not None and noted.revision:
        raise damaged(path, f"no file, but a mark of one with {noted.revision} entries")
    draft = companion(path, ".new")
    for leftover in (draft, companion(draft, "-wal"), companion(draft, "-shm")):
        leftover.unlink(missing_ok=True)
    identity = secrets.token_hex(8)
    origin = f"{ORIGIN_PREFIX}{identity}"
    key = keys.make_key(path)
    head = checkpoint_of(origin, 0, proofs.EMPTY_ROOT, HEAD, now, checkpoints.summary(()))
    os.close(files.create(draft))
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        run_script(connection, schema.CREATE)
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            (
                (schema.ORIGIN, origin),
                (schema.KEY, str(checkpoints.verifier_key(origin, key))),
                (schema.HEAD, checkpoints.sign(head.text(), origin, key)),
            ),
        )
    write_mark(path, Noted(_identity(origin), Revision(0)))
    draft.replace(path)
    files.sync_folder(path.parent)


def _make_private(path: Path) -> None:
    """Nobody else may write; a group may read that somebody has allowed to, such as that of a signing process."""
    for each in (path, companion(path, "-wal"), companion(path, "-shm")):
        if each.exists():
            files.restrict(each, 0o640)


def _key_of(path: Path, connection: sqlite3.Connection) -> Ed25519PrivateKey:
    expected = reading.meta(connection, schema.KEY, path)
    origin = reading.meta(connection, schema.ORIGIN, path)
    try:
        key = keys.read_key(path)
    except FileNotFoundError as error:
        raise LedgerUnavailable(
            f"{path}: got no key at {keys.key_of(path)}, expected that of the ledger; restore it from a backup"
        ) from error
    if str(checkpoints.verifier_key(origin, key)) != expected:
        raise damaged(path, f"a key at {keys.key_of(path)} that is not this ledger's")
    return key


def _identity(origin: str) -> int:
    return int(origin.removeprefix(ORIGIN_PREFIX), 16)


def _mark(path: Path, connection: sqlite3.Connection) -> Mark:
    """The mark, which finds that SQLite's log was lost. A copy has none, and says that it is one."""
    noted = Noted(_identity(reading.meta(connection, schema.ORIGIN, path)), Revision(reading.size_of(connection)))
    is_copy = reading.one(connection, "SELECT value FROM meta WHERE name = 'copied'") is not None
    known = None if is_copy else read_mark(path)
    if known is None and not is_copy:
        raise damaged(path, "no mark that says how far this ledger once was")
    if known is not None and known.identity != noted.identity:
        raise damaged(path, "the mark of another ledger")
    if known is not None and known.revision > noted.revision:
        lost = known.revision - noted.revision
        raise damaged(path, f"{noted.revision} entries where {known.revision} were acknowledged: {lost} are lost")
    if known is None:
        write_mark(path, noted)
    return Mark(path, noted)


def is_marked_by(noted: Noted, connection: sqlite3.Connection, path: Path) -> bool:
    """Whether this mark is the ledger's own; that of a copy is nobody's. Raises LedgerDamaged, sqlite3.Error."""
    is_copy = reading.one(connection, "SELECT value FROM meta WHERE name = 'copied'") is not None
    return not is_copy and f"{ORIGIN_PREFIX}{noted.identity:016x}" == reading.meta(connection, schema.ORIGIN, path)


def copy_ledger(path: Path, into: Path, now: dt.datetime) -> int:
    """Copy the ledger at ``path``, also while a process writes it, to a file that is made; returns its size.

    The copy is of one commit, and says that it is a copy, so that it is opened without a mark.

    Raises:
        LedgerDamaged, LedgerUnavailable
    """
    with closing(connect_to_read(path)) as source:
        try:
            os.close(files.create(into))
            with closing(sqlite3.connect(into, isolation_level=None)) as target:
                source.backup(target)
                target.execute("INSERT OR REPLACE INTO meta VALUES ('copied', ?)", (now.isoformat(),))
                return reading.size_of(target)
        except sqlite3.Error as error:
            raise translated(error, path) from error
        except OSError as error:
            raise LedgerUnavailable(f"{into}: got {(error.strerror or str(error)).lower()}, expected room") from error
