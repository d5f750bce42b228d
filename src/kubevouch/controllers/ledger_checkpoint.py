"""ledger-checkpoint-controller: publishes what the ledger is, signed, where others can keep it.

Whoever has kept a checkpoint finds with ``kubevouch audit verify --checkpoint`` what was changed or taken out of the
ledger before it, also by somebody who has the ledger's key. Every process that keeps a ledger has two lines of the
ConfigMap of its own.
"""

from __future__ import annotations

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client, TransportError
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, ReconcileError, Request, Result
from kubevouch.ledger.interface import LedgerError
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

NAME = wellknown.LEDGER_CHECKPOINT_CONTROLLER

CHECKPOINT_SECONDS = 900.0
"""What was written since the newest checkpoint can be written anew by who has the key. A year has 35,000 of them: 10 MB
and 5 s of a verification."""
MOST_LEDGERS = 32
"""Of other processes that are kept in the ConfigMap; who may write it cannot make it grow by new ones."""

_CHECKPOINT, _KEY = ".checkpoint", ".key"


class LedgerCheckpoints:
    """Publishes the checkpoints of one ledger."""

    def __init__(self, client: Client, ledger: SQLiteLedger) -> None:
        self._client = client
        self._ledger = ledger

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is one
        try:
            size, note = await self._ledger.checkpoint()
        except LedgerError as err:
            raise ReconcileError(f"error signing a checkpoint of the ledger: {err}") from err
        await self._publish(note)
        self._ledger.statistics.published = size
        return Result(requeue_after=CHECKPOINT_SECONDS)

    async def _publish(self, note: str) -> None:
        identity = self._ledger.identity
        mine = {f"{identity}{_CHECKPOINT}": note, f"{identity}{_KEY}": f"{self._ledger.verifier_key}\n"}
        name, namespace = wellknown.LEDGER_CHECKPOINT_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
        try:
            try:
                stored = await self._client.get(CONFIG_MAPS, name, namespace)
            except APIStatusError as err:
                if err.code != 404:
                    raise
                meta = ObjectMeta(name=name, namespace=namespace)
                await self._client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=mine))
                return
            others = {key: value for key, value in stored.data.items() if key not in mine}
            kept = dict(sorted(others.items())[: 2 * MOST_LEDGERS]) | mine
            if kept != stored.data:
                await self._client.update(CONFIG_MAPS, msgspec.structs.replace(stored, data=kept))
        except (APIStatusError, TransportError) as err:
            raise ReconcileError(f"error publishing a checkpoint of the ledger: {err}") from err


def build(context: Context) -> QueueController | None:
    """None for a ledger that ends with its process: there is nothing to prove to who comes later."""
    if not isinstance(context.ledger, SQLiteLedger):
        return None
    controller = QueueController(NAME, LedgerCheckpoints(context.connect(NAME), context.ledger), context.clock)
    controller.queue.add(Request(wellknown.LEDGER_CHECKPOINT_CONFIGMAP))
    return controller
