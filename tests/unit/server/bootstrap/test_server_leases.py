"""server/bootstrap/server_leases.py: ``default/kubernetes`` names the API servers that are at work, and no others."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.server.bootstrap.server_leases import INTERVAL_SECONDS, PREFIX, TTL_SECONDS, ServerLeases
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock
from replicas_world import Replica, replicas

# What kube-apiserver 1.36 wrote under /registry/masterleases/10.99.0.1 at its start.
_KUBERNETES = base64.b64decode("azhzAAoPCgJ2MRIJRW5kcG9pbnRzEiMKEAoAEgAaACIAKgAyADgBQgASDwoNCgkxMC45OS4wLjEaABoAIgA=")
_OWN = ipaddress.ip_address("10.99.0.1")


async def _named(replica: Replica) -> list[str]:
    endpoints = await replica.client.get(catalog.ENDPOINTS, "kubernetes", "default")
    part = await replica.client.get(catalog.ENDPOINT_SLICES, "kubernetes", "default")
    found = [each.ip for subset in endpoints.subsets for each in subset.addresses]
    assert found == [address for each in part.endpoints or () for address in each.addresses or ()]
    return found


def _addresses(*numbers: int) -> Sequence[str]:
    return [f"192.0.2.{number}" for number in numbers]


@async_test
async def test_who_stops_is_named_no_more_and_who_dies_neither_once_its_lease_has_ended(tmp_path: Path) -> None:
    clock = FakeClock()
    async with replicas(1, tmp_path / "a", clock) as first:
        pki, store = first[0].server.pki, first[0].link.store
        async with replicas(2, pki, clock, store=store, offset=1) as more:
            assert await _named(first[0]) == _addresses(1, 2, 3)
            await more[0].stop()
            assert await _named(first[0]) == _addresses(1, 3)
            more[1].link.cut()
            await clock.run(TTL_SECONDS)
            assert await _named(first[0]) == _addresses(1, 3)
            await clock.run(INTERVAL_SECONDS)
            assert await _named(first[0]) == _addresses(1)
            more[1].link.mend()
            await clock.run(INTERVAL_SECONDS)
            assert await _named(first[0]) == _addresses(1, 3)


@async_test
async def test_leases_are_those_of_kubernetes() -> None:
    store = MemoryStore(clock=FakeClock())
    leases = ServerLeases(store, _OWN)
    await leases.renew()
    found = await store.get(f"{PREFIX}10.99.0.1")
    assert found is not None
    assert found.value == _KUBERNETES
    await leases.renew()
    counted = await store.get(f"{PREFIX}10.99.0.1")
    assert counted is not None
    assert counted.value == _KUBERNETES.replace(b"8\x01", b"8\x02")
    # A server of Kubernetes beside ours, one of another family, and what nobody can read.
    await store.create(f"{PREFIX}10.99.0.2", _KUBERNETES.replace(b"10.99.0.1", b"10.99.0.2"))
    await store.create(f"{PREFIX}fd00::2", _KUBERNETES.replace(b"\x0f\n\r\n\t10.99.0.1", b"\r\n\v\n\afd00::2"))
    await store.create(f"{PREFIX}10.99.0.3", b"k8s\0broken")
    assert [str(each) for each in await leases.addresses()] == ["10.99.0.1", "10.99.0.2"]
    await leases.release()
    await leases.release()
    assert [str(each) for each in await leases.addresses()] == ["10.99.0.2"]
    await store.close()
