"""Files that this process has open, and whether they are still where it opened them.

A file that was deleted, or whose folder was moved or replaced, goes on working for the process that has it open: writes
succeed, syncs succeed, and everything is lost when the process ends. Only a look at the path tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ADVICE = (
    "nothing is written or signed until the files are back: move them back; if they were deleted, copy what this"
    " process still has open before you stop it, or restore a backup (docs/howto/store.md)"
)
"""What an operator does about files that are gone."""


class NotInPlaceError(Exception):
    """A file that is open is not at its path any more. The text says what to do."""

    def __init__(self, path: str, got: str) -> None:
        super().__init__(f"{path}: got {got}, expected what this process has open; {ADVICE}")


class HeldFiles:
    """Files, and perhaps folders, as they were when this was made: by device and inode."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Raises OSError: one of them is missing."""
        # Texts: a look is made at each commit, and a Path costs as much again.
        self._held = {os.fspath(path): os.stat(path) for path in paths}  # noqa: PTH116

    def expect_in_place(self) -> None:
        """Raises NotInPlaceError unless all of them are where they were."""
        for path in self._held:
            self.status(path)

    def status(self, path: str) -> os.stat_result:
        """Of one of them. Raises NotInPlaceError."""
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as err:
            raise NotInPlaceError(path, f"no file ({(err.strerror or str(err)).lower()})") from err
        if not os.path.samestat(found, self._held[path]):
            raise NotInPlaceError(path, "another file")
        return found
