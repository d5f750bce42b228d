"""Attached programs with one ledger in the cluster: they share it, and say what is missing from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from asynctest import async_test
from attached_world import (
    JOINING,
    asked,
    attached,
    foreign,
    holds,
    is_issued,
    options_for,
    signing_of,
    until,
    until_leading,
)
from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS, NAMESPACES
from kubevouch.api.core_v1 import Namespace
from kubevouch.client.leader_election import ElectionOptions
from kubevouch.ledger import segments
from kubevouch.ledger.cluster import load
from kubevouch.ledger.entries import Query
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.standalone.attached.check import Intent, look
from kubevouch.standalone.attached.options import IN_CLUSTER
from kubevouch.standalone.attached.process import selected_of
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.logs import capture_logs
from kubevouch.util.clock import SystemClock

_APPROVER, _SIGNER = tuple(each for each in JOINING if each != "csrsigning"), ("csrsigning",)


async def _prepared(cluster: Cluster) -> None:
    await cluster.client().create(NAMESPACES, Namespace(metadata=ObjectMeta(name=wellknown.LEDGER_NAMESPACE)))


@async_test
async def test_approver_and_signer_write_one_ledger() -> None:
    async with foreign() as cluster:
        await _prepared(cluster)
        approver = options_for(
            cluster, controllers=_APPROVER, ledger=IN_CLUSTER, election=ElectionOptions(name="approver")
        )
        signer = options_for(
            cluster, controllers=_SIGNER, ledger=IN_CLUSTER, signing=signing_of(cluster),
            election=ElectionOptions(name="signer"),
        )  # fmt: skip
        async with attached(cluster, options=approver) as one, attached(cluster, options=signer) as other:
            await until_leading(one)
            await until_leading(other)
            await asked(cluster, "shared", "worker-1")
            await until(cluster, "shared", is_issued)
            for check in (*one.clusters[0].ready_checks().values(), *other.clusters[0].ready_checks().values()):
                await check()
        found = await (await load(cluster.client())).entries.find(Query(request="shared"))
        assert [each.entry.kind for each in found] == ["approved", "intended", "issued"]


@async_test
async def test_a_ledger_with_entries_missing_is_told_and_nothing_is_decided() -> None:
    async with foreign() as cluster:
        await _prepared(cluster)
        options = options_for(cluster, controllers=JOINING, ledger=IN_CLUSTER, signing=signing_of(cluster))
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await asked(cluster, "first", "worker-1")
            await until(cluster, "first", is_issued)
        await cluster.client().delete(CONFIG_MAPS, segments.name_of(0), wellknown.LEDGER_NAMESPACE)
        with capture_logs() as logs:
            async with attached(cluster, options=options) as found:
                await holds(lambda: any(each["event"] == "the controllers cannot start" for each in logs))
                with pytest.raises(Exception, match="0 entries of no ledger"):
                    await found.clusters[0].ready_checks()["ledger"]()


@async_test
async def test_who_keeps_it_in_memory_is_told() -> None:
    async with foreign() as cluster:
        with capture_logs() as logs:
            async with attached(cluster, controllers=("csrcleaner",)) as found:
                await until_leading(found)
        told = [each for each in logs if "kept in memory" in each["event"]]
        assert [each["instead"] for each in told] == ["--ledger cluster, or --ledger FILE"]


@async_test
async def test_what_a_ledger_takes_is_among_the_rights_that_check_asks_for(tmp_path: Path) -> None:
    async with foreign() as cluster:
        words = ("ledgercheckpoint",)
        intent, now = Intent(selected_of(words), words), SystemClock().now()
        nobody = cluster.client("nobody")
        in_file = (await look(nobody, replace(intent, ledger=tmp_path / "ledger.db"), now)).lacking
        assert "update configmaps kubevouch-ledger-checkpoint in kube-public" in in_file
        inside = (await look(nobody, replace(intent, ledger=IN_CLUSTER), now)).lacking
        assert "update configmaps in kubevouch-ledger" in inside
        assert "update configmaps kubevouch-ledger-head in kube-public" in inside
        assert not any("kubevouch-ledger" in each for each in (await look(nobody, intent, now)).lacking)
