"""An etcd at one revision, in pages, with when the lease of each key ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubevouch.storage.etcd import messages
from kubevouch.storage.etcd.client import LIST_ATTEMPT_SECONDS, EtcdClient
from kubevouch.storage.etcd.errors import CallFailed
from kubevouch.storage.etcd.keys import Keys
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.store import OPEN_SECONDS
from kubevouch.storage.interface import Compacted, Revision, StoreDamaged
from kubevouch.storage.snapshot import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Batch, Origin, Record
from kubevouch.storage.write import microseconds
from kubevouch.util.clock import Clock

_MOST_RECORDS = 8 * MAX_BATCH_RECORDS


class EtcdSnapshot:
    """A ``Snapshot``: etcd keeps the revision until it is compacted."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock, origin: Origin, revision: Revision) -> None:
        self.origin = origin
        self.revision = revision
        self._client = client
        self._keys = keys
        self._clock = clock
        self._ends: dict[int, int] = {}
        """Of leases, in microseconds since 1970. Events share them, a thousand each."""

    async def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
        span = self._keys.range(prefix, "")
        if span is None:
            return
        first, end = span
        limit = MAX_BATCH_RECORDS
        while True:
            request = messages.RangeRequest(key=first, range_end=end, limit=limit, revision=self.revision)
            answer = await self._call(messages.RANGE, request)
            batch = [await self._record(kv) for kv in answer.kvs]
            if batch:
                yield batch
            if not answer.more:
                return
            first = answer.kvs[-1].key + b"\0"
            size = sum(len(record.value) for record in batch)
            if size > MAX_BATCH_BYTES:
                limit = max(limit // 2, 1)
            elif size < MAX_BATCH_BYTES // 4:
                limit = min(limit * 2, _MOST_RECORDS)

    async def _record(self, kv: Any) -> Record:
        try:
            key = self._keys.text(kv.key)
        except ValueError as err:
            raise StoreDamaged(f"etcd: got the key {kv.key!r}, expected text; nothing of Kubernetes writes it") from err
        return Record(key, kv.value, Revision(kv.mod_revision), await self._end(kv.lease) if kv.lease else None)

    async def _end(self, lease: int) -> int:
        if lease not in self._ends:
            answer = await self._call(messages.LEASE_TIME_TO_LIVE, messages.LeaseTimeToLiveRequest(ID=lease))
            # -1 for one that is over by now.
            self._ends[lease] = microseconds(self._clock) + max(answer.TTL, 0) * 1_000_000
        return self._ends[lease]

    async def _call(self, method: messages.Method, request: Any) -> Any:
        try:
            return await self._client.read(method, request, LIST_ATTEMPT_SECONDS)
        except CallFailed as err:
            if err.is_compacted:
                raise Compacted(self.revision, Revision(self.revision + 1)) from err
            raise err.as_store_error("") from err


@asynccontextmanager
async def open_snapshot(options: EtcdOptions, clock: Clock) -> AsyncIterator[EtcdSnapshot]:
    """The keys of one cluster as they are now, by the word of a majority.

    Raises:
        StoreUnavailable
    """
    client = EtcdClient(options, clock)
    keys = Keys(options.prefix)
    try:
        try:
            answer = await client.call(messages.RANGE, messages.RangeRequest(key=keys.root, limit=1), OPEN_SECONDS)
        except CallFailed as err:
            raise err.as_not_opened(options.endpoints) from err
        origin = Origin(f"etcd:{answer.header.cluster_id:x}{options.prefix}", options.prefix)
        yield EtcdSnapshot(client, keys, clock, origin, Revision(answer.header.revision))
    finally:
        await client.close()
