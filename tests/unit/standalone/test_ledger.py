"""standalone/ledger.py: where the ledger is, and how it begins in a data directory that is older."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from controller_world import NOW, world
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.ledger.entries import Query
from kubevouch.ledger.interface import LedgerUnavailable
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import IssuedCertificate
from kubevouch.server.metrics import issuance
from kubevouch.standalone import ledger
from kubevouch.storage.options import MemorySpec, parse_store
from kubevouch.testing.clock import FakeClock


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SQLiteLedger]:
    made = await ledger.open_ledger(parse_store("sqlite:", folder), folder, FakeClock(NOW))
    assert isinstance(made, SQLiteLedger)
    try:
        yield made
    finally:
        await made.close()


@async_test
async def test_it_is_where_the_store_is(tmp_path: Path) -> None:
    assert isinstance(await ledger.open_ledger(MemorySpec(), tmp_path, FakeClock(NOW)), MemoryLedger)
    async with opened(tmp_path) as made:
        assert made.path == tmp_path / "ledger.db"
        with pytest.raises(LedgerUnavailable):
            await ledger.open_ledger(parse_store("sqlite:", tmp_path), tmp_path / "ledger.db", FakeClock(NOW))


@async_test
async def test_a_new_one_says_since_when_and_what_was_found(tmp_path: Path) -> None:
    issued = [
        IssuedCertificate(
            common_name=f"system:node:n{number}", signer_name="kubernetes.io/kube-apiserver-client-kubelet",
            serial=f"{number:x}", not_before=NOW, not_after=NOW + dt.timedelta(days=30), authority="ab", token="abcdef",
        )
        for number in range(300)
    ]  # fmt: skip
    async with world() as at, opened(tmp_path) as made:
        data = certificate_ledger.encode({each.key: each for each in issued})
        meta = ObjectMeta(name=certificate_ledger.LAYOUT.names[0], namespace="kube-system")
        await at.client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data=data))
        for _ in range(2):
            await ledger.begin(made, at.client, NOW)
        (begun,) = await made.find(Query(kinds=frozenset({"begun"})))
        assert begun.sequence == 300 and begun.entry.at == NOW
        assert begun.entry.message.startswith("300 certificates were issued before and may be alive")
        (found,) = await made.find(Query(node="n77"))
        assert (found.entry.kind, found.entry.serial, found.entry.token) == ("issued", "4d", "abcdef")
        assert made.statistics.entries == 301


@async_test
async def test_an_empty_cluster_has_nothing_before(tmp_path: Path) -> None:
    async with world() as at, opened(tmp_path) as made:
        await ledger.begin(made, at.client, NOW)
        (begun,) = await made.find(Query())
        assert begun.entry.message == "nothing was written down before"
        samples = {each.name: each.samples[0].value for each in issuance.collect(made.statistics, made.lag)}
        assert samples["kubevouch_ledger_entries"] == samples["kubevouch_ledger_unpublished_entries"] == 1
        assert samples["kubevouch_ledger_lag_seconds"] == 0
