"""What a server has seen of an etcd: which cluster it is, and the highest revision that was acknowledged.

An etcd that was restored from an older state answers like any other. Its revisions are given out again with other
content, and what was deleted or revoked since is back as it was. etcd itself does not tell; only somebody outside who
remembers does. Each server keeps its own mark in its data directory, as the mark beside SQLite's file is kept: mapped
into memory, moved before anybody hears of a revision, never ahead of what etcd has acknowledged.

No false alarm: only answers that a majority stands behind count (linearizable reads and writes), and each is held
against what was known before it was asked. Compaction and defragmentation lower no revision, and a member that lags
does not answer such a question before it has caught up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubevouch.storage.interface import Revision, StoreDamaged
from kubevouch.storage.sqlite.mark import Mark, Noted, mark_of, read_mark, write_mark
from kubevouch.util import files
from kubevouch.util.held_files import HeldFiles
from kubevouch.util.logger import get_logger

log = get_logger("storage.etcd")


class EtcdWentBack(StoreDamaged):
    """An etcd that lacks what was acknowledged, or another one than before."""


class Seen:
    """What one process has seen of the etcd ``name``.

    Args:
        mark: where it is kept; None for a process that keeps none, and only compares with what it has seen itself.
    """

    def __init__(self, name: str, cluster: int, revision: Revision, mark: Path | None) -> None:
        """Raises OSError: the mark cannot be mapped."""
        self.cluster = cluster
        self.revision = revision
        self.problem: EtcdWentBack | None = None
        """Stays: an etcd that goes on from an older state has soon as many revisions as before."""
        self._name = name
        self._place = mark
        self._mark = None if mark is None else Mark(mark, Noted(cluster, revision))
        self._held = HeldFiles([] if mark is None else [mark_of(mark)])

    @classmethod
    def begin(cls, name: str, header: Any, mark: Path | None, noted: Noted | None) -> Seen:
        """From an answer that fits ``noted``. Raises OSError."""
        revision = Revision(header.revision)
        if mark is not None and noted is None:
            files.make_folder(mark.parent, files.PRIVATE_FOLDER)
            write_mark(mark, Noted(header.cluster_id, revision))
        seen = cls(name, header.cluster_id, revision, mark)
        seen.note(revision)
        return seen

    def expect(self, header: Any, before: Revision) -> Revision:
        """The revision of an answer.

        Args:
            before: :attr:`revision` when it was asked for.

        Raises:
            EtcdWentBack: it is an answer of an older etcd, or of another one; from now on every answer is refused.
        """
        found = Revision(header.revision)
        if header.cluster_id != self.cluster or found < before:
            noted = Noted(self.cluster, before)
            self.problem = went_back(self._name, header.cluster_id, found, noted, self._place)
            log.critical("etcd went back, and nothing is read or written any more", problem=str(self.problem))
            raise self.problem
        if found > self.revision:
            self.note(found)
        return found

    def note(self, revision: Revision) -> None:
        """``revision`` may be told from now on."""
        self.revision = revision
        if self._mark is not None:
            self._mark.advance(revision)

    def expect_in_place(self) -> None:
        """Raises NotInPlaceError."""
        self._held.expect_in_place()

    def close(self) -> None:
        mark, self._mark = self._mark, None
        if mark is None:
            return
        try:
            mark.close()
        except OSError as error:
            log.warning("the mark of etcd could not be written", path=str(self._place), err=str(error))


def read_noted(mark: Path, name: str) -> Noted | None:
    """What the mark says; None if there is none: no server of this data directory has used etcd yet.

    Raises:
        EtcdWentBack: it cannot be read.
        OSError
    """
    try:
        return read_mark(mark)
    except StoreDamaged as error:
        raise EtcdWentBack(
            f"{name}: got a mark ({mark_of(mark)}) that cannot be read: nobody knows how far etcd was;"
            f" {_way_on(name, mark)}"
        ) from error


def went_back(name: str, cluster: int, revision: int, noted: Noted, mark: Path | None) -> EtcdWentBack:
    """The refusal of an answer that does not fit ``noted``."""
    if cluster != noted.identity:
        got = (
            f"the etcd cluster {cluster:x} at revision {revision}, expected {noted.identity:x}, which was at revision"
            f" {noted.revision}: it was restored from a snapshot, or this is another etcd"
        )
    else:
        got = (
            f"revision {revision}, expected {noted.revision} or later, which was acknowledged: etcd was restored from"
            " an older state"
        )
    return EtcdWentBack(f"{name}: got {got}; {_way_on(name, mark)}", got)


def _way_on(name: str, mark: Path | None) -> str:
    folder = "" if mark is None else f" --data-dir {mark.parent}"
    return (
        "restore the newest snapshot; or stop all servers, and give up what is missing with kubevouch store"
        f" accept-loss {name}{folder}"
    )
