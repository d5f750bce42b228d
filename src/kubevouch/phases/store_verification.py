"""Looking at every key of a store that several processes may use, or of a backup; nothing is changed."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kubevouch.machinery.codec.encrypted_values import ENCRYPTED
from kubevouch.phases.store import judged, stored_resource
from kubevouch.storage.copying import mark
from kubevouch.storage.copying.copy import Source
from kubevouch.storage.copying.mark import MARK_KEY
from kubevouch.storage.interface import Revision, StoreDamaged
from kubevouch.storage.sqlite.verification import MOST_FINDINGS
from kubevouch.util.clock import Clock


@runtime_checkable
class HasMembers(Protocol):
    """A store that is kept several times."""

    async def verify_members(self, revision: Revision, clock: Clock) -> list[str]:
        """What is wrong with them, each asked by itself about all up to ``revision``."""
        ...


@dataclass(slots=True)
class LookedThrough:
    """What was found.

    Args:
        encrypted: values that nobody could look into, ``others`` those of kinds that are not ours.
    """

    findings: list[str] = field(default_factory=list)
    revision: Revision = Revision(0)  # noqa: RUF009 - a number
    keys: int = 0
    encrypted: int = 0
    others: int = 0

    def add(self, finding: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
        elif len(self.findings) == MOST_FINDINGS:
            self.findings.append("and more")


async def verify(place: Source, clock: Clock) -> LookedThrough:
    """Reads all of ``place``, and asks each member of an etcd by itself.

    Raises:
        StoreUnavailable, OSError
    """
    looked = LookedThrough()
    async with place.snapshot(clock) as snapshot, aclosing(snapshot.batches()) as batches:
        looked.revision = snapshot.revision
        async for batch in batches:
            for record in batch:
                _look(looked, record.key, record.value)
    if isinstance(place, HasMembers):
        for finding in await place.verify_members(looked.revision, clock):
            looked.add(finding)
    return looked


def _look(looked: LookedThrough, key: str, value: bytes) -> None:
    if key == MARK_KEY:
        if wrong := _unfinished(value):
            looked.add(wrong)
        return
    looked.keys += 1
    if value.startswith(ENCRYPTED):
        looked.encrypted += 1
    elif stored_resource(key) is None:
        looked.others += 1
    elif wrong := judged(key, value):
        looked.add(f"{key}: {wrong}")


def _unfinished(value: bytes) -> str:
    try:
        return "" if mark.decoded(value).finished else "a copy to this store was not finished; run it again"
    except StoreDamaged as err:
        return str(err)
