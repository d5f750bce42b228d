"""controllers/certificate_ledger.py: what is issued is written down, once, and outlives its request."""

from __future__ import annotations

from itertools import count

import msgspec

from asynctest import async_test
from ca_world import CAWorld, ca_world
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.controllers.certificate_ledger import BATCH_SECONDS
from kubevouch.records.certificate_ledger import PREFIX, IssuedCertificate, decode, machine_key


async def _ledger(world: CAWorld) -> dict[str, IssuedCertificate]:
    found: dict[str, IssuedCertificate] = {}
    for each in (await world.cluster.client().list(catalog.CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE)).items:
        if each.metadata.name.startswith(PREFIX):
            found |= decode(each.data)
    return found


async def _versions(world: CAWorld) -> dict[str, str]:
    maps = (await world.cluster.client().list(catalog.CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE)).items
    return {each.metadata.name: each.metadata.resource_version for each in maps}


@async_test
async def test_it_begins_empty_and_outlives_the_requests() -> None:
    async with ca_world() as world:
        assert f"{PREFIX}0" in await _versions(world) and await _ledger(world) == {}
        leaf = await world.issue("worker-1")
        await world.wait(BATCH_SECONDS)
        (entry,) = (await _ledger(world)).values()
        assert (entry.machine, entry.serial, entry.not_after) == ("worker-1", f"{leaf.serial:x}", leaf.not_after)
        assert bytes.fromhex(entry.authority) == world.signing().meaning.subject_key_id
        await world.forget_requests()
        await world.wait(60)
        assert list((await _ledger(world)).values()) == [entry]


@async_test
async def test_a_renewal_takes_its_place() -> None:
    async with ca_world() as world:
        await world.issue("worker-1")
        renewed = await world.issue("worker-1", 1)
        await world.issue("worker-2")
        await world.wait(60)
        entries = {each.machine: each for each in (await _ledger(world)).values()}
        assert entries.keys() == {"worker-1", "worker-2"}
        assert entries["worker-1"].serial == f"{renewed.serial:x}"


@async_test
async def test_a_restart_misses_nothing_and_writes_nothing_twice() -> None:
    async with ca_world() as world:
        await world.issue("worker-1")
        await world.wait(60)
        versions = await _versions(world)
        await world.cluster.restart_async()
        await world.wait(60)
        assert await _versions(world) == versions


def _machine_of(shard: str) -> str:
    signer = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
    names = (f"worker-{number}" for number in count())
    return next(name for name in names if machine_key(signer, f"system:node:{name}").startswith(shard))


@async_test
async def test_a_shard_that_takes_no_more_keeps_nobody_out_of_the_others() -> None:
    async with ca_world() as world:
        client = world.cluster.client()
        first = await client.get(catalog.CONFIG_MAPS, f"{PREFIX}0", wellknown.KUBE_SYSTEM_NAMESPACE)
        await client.update(catalog.CONFIG_MAPS, msgspec.structs.replace(first, immutable=True))
        other = _machine_of("5")
        await world.issue(_machine_of("0"))
        await world.issue(other)
        await world.wait(BATCH_SECONDS)
        assert [each.machine for each in (await _ledger(world)).values()] == [other]
