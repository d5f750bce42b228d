"""The records of nodes' recovery keys, read and written at the server: each write names the version it follows from.

A clone is written down here, too: its node is locked, and an Event tells of it.
"""

from __future__ import annotations

from collections.abc import Callable

from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.core_v1.events import WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.interface import ReconcileError
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import CloneError, Record, RecoveryRecordError
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.node_recovery")

CLONE_REASON = "RecoveryKeyReused"
_TRIES = 5

Change = Callable[[Record | None], Record | None]


class RecoveryRecords:
    """Args: ``client`` acts as the node-recovery-controller."""

    def __init__(self, client: Client, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._events = EventRecorder(client, clock, component)

    async def change(self, node_name: str, change: Change) -> bool:
        """Write what ``change`` makes of the record; whether anything was written. None, or the same, writes nothing.

        Raises:
            CloneError: ``change`` did, and the node is locked now.
            RecoveryRefusedError: ``change`` did.
            ReconcileError: the record cannot be read, or is written by too many.
            APIStatusError, TransportError
        """
        for _ in range(_TRIES):
            stored = await self._read(node_name)
            try:
                record = None if stored is None else node_recovery.record_of(stored)
            except RecoveryRecordError as err:
                raise ReconcileError(str(err)) from err
            clone: CloneError | None = None
            try:
                changed = change(record)
            except CloneError as err:
                assert record is not None  # nobody is a copy of what is not known
                clone, changed = err, node_recovery.lock(record, str(err), now=self._clock.now())
            done = changed is None or changed is record or await self._wrote(stored, changed)
            if done and clone is not None:
                log.error("a recovery key is used twice", node=node_name, reason=str(clone))
                await self.tell(node_name, WARNING, CLONE_REASON, str(clone))
                raise clone
            if done:
                return changed is not None and changed is not record
        raise ReconcileError(f"the recovery record of {node_name} is changed too often")

    async def tell(self, node_name: str, kind: str, reason: str, message: str) -> None:
        """An Event about the node, whose object may not be there. A failure is only logged: the record counts."""
        try:
            await self._events.record(ObjectReference(kind="Node", name=node_name), kind, reason, message)
        except (APIStatusError, TransportError) as err:
            log.warning("an event could not be written", node=node_name, reason=reason, err=str(err))

    async def _read(self, node_name: str) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIG_MAPS, node_recovery.record_name(node_name), node_recovery.NAMESPACE)
        except APIStatusError as err:
            if err.code == 404:
                return None
            raise

    async def _wrote(self, stored: ConfigMap | None, record: Record) -> bool:
        """False if somebody else wrote meanwhile."""
        wanted = node_recovery.config_map(record, stored)
        try:
            await (self._client.create if stored is None else self._client.update)(CONFIG_MAPS, wanted)
        except APIStatusError as err:
            if err.reason in (Reason.CONFLICT, Reason.ALREADY_EXISTS) or (err.code == 404 and stored is not None):
                return False
            raise
        return True
