"""The ``--store`` setting: which store to open, and where.

memory:             gone when the process ends
sqlite:             a file of the default name in the data folder
sqlite:PATH         that file; made, with its folder, if it is not there
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubevouch.storage.interface import Store
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.util.clock import Clock

DEFAULT_FILE = "kubevouch.db"


class InvalidStoreSpec(ValueError):
    """The text names no store."""


@dataclass(frozen=True, slots=True)
class MemorySpec:
    """``memory:``"""

    @property
    def is_shared(self) -> bool:
        """Whether other processes may be at work on it at the same time."""
        return False

    async def open(self, clock: Clock) -> Store:
        return MemoryStore(clock=clock)

    def __str__(self) -> str:
        return "memory:"


@dataclass(frozen=True, slots=True)
class SQLiteSpec:
    """``sqlite:PATH``"""

    path: Path

    @property
    def is_shared(self) -> bool:
        """See :class:`MemorySpec`: it is locked."""
        return False

    async def open(self, clock: Clock) -> Store:
        """Raises StoreInUse, StoreDamaged, StoreUnavailable."""
        return await SQLiteStore.open(self.path, clock=clock)

    def __str__(self) -> str:
        return f"sqlite:{self.path}"


StoreSpec = MemorySpec | SQLiteSpec


def parse_store(text: str, data_folder: Path) -> StoreSpec:
    """What ``text`` asks for. It can be opened as often as wanted, one after the other.

    Raises:
        InvalidStoreSpec
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "memory" and not rest:
        return MemorySpec()
    if colon and scheme == "sqlite" and "\x00" not in rest and not rest.endswith("/"):
        return SQLiteSpec(Path(rest) if rest else data_folder / DEFAULT_FILE)
    raise InvalidStoreSpec(
        f"got the store {text!r}, expected memory: or sqlite:PATH; for example sqlite:/var/lib/kubevouch/{DEFAULT_FILE}"
    )
