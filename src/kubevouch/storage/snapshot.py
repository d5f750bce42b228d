"""All of a store at one moment, for those who copy, compare and look through stores rather than serve from them.

A ``Store`` answers what an API server asks. A snapshot also says when each key ends, which a list does not, and reads a
store that another process has open.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

import msgspec

from kubevouch.storage.interface import Revision

MAX_BATCH_RECORDS = 256
MAX_BATCH_BYTES = 4 * 1024 * 1024
"""A batch with so much takes no more records; with the largest value on top it is what a reader keeps in memory."""

ROOT = "/registry"
"""What the keys of a store begin with for those who use it. The etcd of a cluster may have another prefix there."""


class Record(NamedTuple):
    """A key at the moment of a snapshot. ``expires`` is in microseconds since 1970, None for a key that stays."""

    key: str
    value: bytes
    revision: Revision
    expires: int | None


Batch = list[Record]


class Origin(msgspec.Struct, frozen=True):
    """Where a snapshot is from.

    Args:
        store: tells this store from every other, whatever it is called: the kind, a colon and an identity.
        prefix: what its keys begin with where they are stored; encrypted values may be bound to it.
        in_use: whether another process has it open, as far as that can be seen.
    """

    store: str
    prefix: str = ROOT
    in_use: bool = False


class Snapshot(Protocol):
    """A store, or a copy of one, at ``revision``. Not for two tasks at a time."""

    @property
    def origin(self) -> Origin: ...

    @property
    def revision(self) -> Revision: ...

    def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
        """The keys that begin with ``prefix``, in byte order, each with its value. It can be asked for again.

        Raises (from the iterator):
            Compacted: the store has forgotten this moment.
            StoreDamaged, StoreUnavailable
        """
        ...
