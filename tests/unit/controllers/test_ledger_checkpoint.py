"""controllers/ledger_checkpoint.py: what the ledger is, where everybody may keep it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import ledger_world
from asynctest import async_test
from controller_world import NOW, World, answer, world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.controllers import ledger_checkpoint
from kubevouch.controllers.interface import Context, ReconcileError, Request
from kubevouch.controllers.ledger_checkpoint import MOST_LEDGERS, LedgerCheckpoints
from kubevouch.ledger import checkpoints
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.standalone.controllers import controller_user
from kubevouch.testing.clock import FakeClock

NAME, NAMESPACE = "kubevouch-ledger-checkpoint", "kube-public"
AGAIN = Request(NAME)


@asynccontextmanager
async def publishing(path: Path) -> AsyncIterator[tuple[World, SQLiteLedger, LedgerCheckpoints]]:
    async with world() as at:
        ledger = await SQLiteLedger.open(path, FakeClock(NOW))
        try:
            # With the rights of the controller, and no others.
            client = at.server.api.loopback(controller_user(ledger_checkpoint.NAME), "test")
            yield at, ledger, LedgerCheckpoints(client, ledger)
        finally:
            await ledger.close()


async def published(at: World, user: str = "") -> dict[str, str]:
    client = at.as_user(user) if user else at.client
    stored = await client.get(CONFIG_MAPS, NAME, NAMESPACE)
    return dict(stored.data)


@async_test
async def test_checkpoints_follow_the_ledger(tmp_path: Path) -> None:
    async with publishing(tmp_path / "ledger.db") as (at, ledger, controller):
        for size in (1, 3):
            await ledger.append(*map(ledger_world.entry, range(ledger.statistics.entries, size)))
            result = await controller.reconcile(AGAIN)
            assert result.requeue_after == ledger_checkpoint.CHECKPOINT_SECONDS
            data = await published(at)
            key = checkpoints.parse_key(data[f"{ledger.identity}.key"])
            assert key == ledger.verifier_key
            checkpoint = checkpoints.verified(data[f"{ledger.identity}.checkpoint"], key)
            assert checkpoint.size == ledger.statistics.published == size
        version = (await at.client.get(CONFIG_MAPS, NAME, NAMESPACE)).metadata.resource_version
        await controller.reconcile(AGAIN)
        assert (await at.client.get(CONFIG_MAPS, NAME, NAMESPACE)).metadata.resource_version == version
        # Anybody with a credential may keep it.
        assert await published(at, "jane") == data
    report = ledger_world.verified(tmp_path / "ledger.db", key, (checkpoint,))
    assert report.findings == []


@async_test
async def test_other_ledgers_keep_their_lines_and_there_are_not_too_many(tmp_path: Path) -> None:
    async with publishing(tmp_path / "ledger.db") as (at, ledger, controller):
        others = {f"{number:04d}.{what}": "x" for number in range(100) for what in ("checkpoint", "key")}
        meta = ObjectMeta(name=NAME, namespace=NAMESPACE)
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=others))
        await controller.reconcile(AGAIN)
        data = await published(at)
        assert len(data) == 2 * MOST_LEDGERS + 2 and f"{ledger.identity}.checkpoint" in data
        assert data["0031.key"] == "x"


@async_test
async def test_what_cannot_be_published_or_signed_is_tried_again(tmp_path: Path) -> None:
    async with publishing(tmp_path / "ledger.db") as (_, ledger, controller):

        class Refusing:
            async def get(self, *_: object) -> None:
                raise refusal()

        def refusal() -> APIStatusError:
            return answer(500)

        with pytest.raises(ReconcileError, match="error publishing a checkpoint"):
            await LedgerCheckpoints(Refusing(), ledger).reconcile(AGAIN)  # type: ignore[arg-type]
        assert ledger.statistics.published == 0
        await ledger.close()
        with pytest.raises(ReconcileError, match=r"error signing a checkpoint of the ledger: .* is closed"):
            await controller.reconcile(AGAIN)


@async_test
async def test_a_ledger_in_memory_has_none() -> None:
    async with world() as at:
        context = Context(lambda _: at.client, InformerFactory(at.client, at.clock), at.clock)
        assert ledger_checkpoint.build(context) is None
