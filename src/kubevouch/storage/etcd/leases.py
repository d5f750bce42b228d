"""Leases for keys with a time to live, shared as kube-apiserver shares them (apiserver storage/etcd3/lease_manager.go).

A lease is asked for a little longer than wanted, then used for consecutive writes: one lease a key would cost etcd
more than the keys. It is never kept alive and never revoked.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.util.clock import Clock

_REUSE_SHARE = 0.05

Grant = Callable[[int], Awaitable[int]]
"""Asks etcd for a lease of so many seconds; returns its ID."""


class _Lease(msgspec.Struct):
    identity: asyncio.Future[int]
    end: float
    writes: int = 0


class SharedLeases:
    """One lease for each time to live, until it is too short or has too many keys."""

    def __init__(self, grant: Grant, clock: Clock, options: EtcdOptions) -> None:
        self._grant = grant
        self._clock = clock
        self._reuse_seconds = options.lease_reuse_seconds
        self._reuse_writes = options.lease_reuse_writes
        self._leases: dict[int, _Lease] = {}

    async def lease(self, ttl: float) -> int:
        """The ID of one that lasts ``ttl`` seconds at least."""
        wanted = math.ceil(ttl)
        now = self._clock.monotonic()
        found = self._leases.get(wanted)
        if found is None or now + wanted > found.end or found.writes >= self._reuse_writes or _failed(found.identity):
            self._leases = {each: lease for each, lease in self._leases.items() if lease.end > now}
            seconds = wanted + min(int(wanted * _REUSE_SHARE), self._reuse_seconds)
            # A task of its own: whoever asked first may be cancelled, the others wait for the same lease.
            found = _Lease(asyncio.ensure_future(self._grant(seconds)), now + seconds)
            found.identity.add_done_callback(retrieve)
            self._leases[wanted] = found
        found.writes += 1
        return await asyncio.shield(found.identity)

    def forget(self, identity: int) -> None:
        """etcd does not know it any more."""
        self._leases = {
            each: lease
            for each, lease in self._leases.items()
            if not lease.identity.done() or _failed(lease.identity) or lease.identity.result() != identity
        }


def _failed(identity: asyncio.Future[int]) -> bool:
    return identity.done() and (identity.cancelled() or identity.exception() is not None)


def retrieve(task: asyncio.Future[Any]) -> None:
    """Perhaps nobody waits for it any more, and asyncio would complain of a failure that nobody heard of."""
    if not task.cancelled():
        task.exception()
