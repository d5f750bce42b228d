"""Write again what would be encrypted in another way by now: so that a former key, or none, is needed no more.

A run looks at everything and writes what is stale; it remembers nothing, so one that was ended goes on when it is run
again. Each value is written only where it was read, so servers may go on with a store that several share: what they
write meanwhile is left as it is, unless it is stale too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kubevouch.machinery.codec.encrypted_values import ENCRYPTED
from kubevouch.storage.copying.copy import Destination
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.interface import EncryptionFailed, RevisionConflict, Store
from kubevouch.storage.snapshot import Record
from kubevouch.storage.write import microseconds
from kubevouch.util.clock import Clock
from kubevouch.util.turns import pace

MAX_NAMED = 10
"""Keys that are named of those that cannot be read."""
_AT_ONCE = 64


@dataclass(slots=True)
class Rewritten:
    """What a run has done.

    Args:
        revision: of the store at its end.
        looked_at: values of the resources that the configuration names.
        rewritten: those of them that were written.
        unreadable: keys of values that cannot be decrypted, and why; the first ones.
        unreadable_count: all of them.
    """

    revision: int = 0
    looked_at: int = 0
    rewritten: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    unreadable_count: int = 0


Told = Callable[[int, int], None]
"""Is told how many values were looked at, with a 0, and then how many of how many were rewritten."""


async def rewrite(place: Destination, encryption: Encryption, clock: Clock, told: Told, *, shared: bool) -> Rewritten:
    """Has ``place`` hold every value in the way in which ``encryption`` writes it.

    Args:
        shared: others may use it at the same time. If not, what it held before is forgotten at the end.

    Raises:
        EncryptionFailed: a value cannot be encrypted.
        StoreInUse, StoreDamaged, StoreUnavailable, Compacted
    """
    done = Rewritten()
    stale = await _stale(place, encryption, clock, told, done)
    store = await place.open(clock)
    try:
        for at in range(0, len(stale), _AT_ONCE):
            writes = (_rewrite(store, encryption, clock, *each) for each in stale[at : at + _AT_ONCE])
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
                done.rewritten += outcome
            told(done.rewritten, len(stale))
        done.revision = await store.revision()
        if not shared:
            await store.compact(done.revision)
    finally:
        await store.close()
    return done


async def _stale(
    place: Destination, encryption: Encryption, clock: Clock, told: Told, done: Rewritten
) -> list[tuple[str, int | None]]:
    """The keys that are to be written, each with when it ends, in microseconds since 1970."""
    stale = []
    async with place.present(clock) as snapshot:
        encryption.root = f"{snapshot.origin.prefix}/"
        async for batch in snapshot.batches():
            for record in batch:
                await pace().keep()
                if await _is_stale(encryption, record, done):
                    stale.append((record.key, record.expires))
            told(done.looked_at, 0)
    return stale


async def _is_stale(encryption: Encryption, record: Record, done: Rewritten) -> bool:
    configured = encryption.of(record.key) is not None
    done.looked_at += configured
    try:
        if not configured and record.value.startswith(ENCRYPTED):
            raise TransformError("the configuration does not name its resource")
        return (await encryption.read(record.key, record.value)).stale
    except TransformError as err:
        done.unreadable_count += 1
        if len(done.unreadable) < MAX_NAMED:
            done.unreadable.append((record.key, str(err)))
        return False


async def _rewrite(store: Store, encryption: Encryption, clock: Clock, key: str, expires: int | None) -> bool:
    """Whether it was written: somebody else may have done so, or have taken it away."""
    while True:
        held = await store.get(key)
        if held is None:
            return False
        ttl = None if expires is None else (expires - microseconds(clock)) / 1_000_000
        if ttl is not None and ttl <= 0:
            return False  # it ends in this moment
        try:
            read = await encryption.read(key, held.value)
        except TransformError:
            return False  # somebody else has written it
        if not read.stale:
            return False
        try:
            await store.update(key, encryption.write(key, read.plain), held.revision, ttl=ttl)
        except RevisionConflict:
            continue
        except TransformError as err:
            raise EncryptionFailed(str(err)) from err
        return True
