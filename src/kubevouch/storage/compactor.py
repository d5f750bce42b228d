"""Forgets old states at intervals, as kube-apiserver does (k8s.io/apiserver/pkg/storage/etcd3/compact.go)."""

from __future__ import annotations

import structlog

from kubevouch.storage.interface import Store, StoreError
from kubevouch.util.clock import Clock

log = structlog.get_logger("storage.compactor")


async def keep_compacting(store: Store, clock: Clock, interval: float) -> None:
    """Every ``interval`` seconds, forget what was old an interval ago: a state is kept for one to two of them."""
    before = await store.revision()
    while True:
        await clock.sleep(interval)
        try:
            await store.compact(before)
            before = await store.revision()
        except StoreError as err:
            log.warning("the store was not compacted, trying again at the next interval", err=str(err))
