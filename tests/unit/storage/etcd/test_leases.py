"""Leases that many keys share."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.storage.etcd.leases import SharedLeases
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.testing.clock import FakeClock


class _Etcd:
    def __init__(self) -> None:
        self.granted: list[int] = []
        self.failing = False

    async def grant(self, seconds: int) -> int:
        await asyncio.sleep(0)
        if self.failing:
            raise ConnectionError
        self.granted.append(seconds)
        return len(self.granted)


@async_test
async def test_writes_of_an_hour_share_a_lease_for_a_minute_and_a_thousand_of_them() -> None:
    etcd, clock = _Etcd(), FakeClock()
    leases = SharedLeases(etcd.grant, clock, EtcdOptions())
    assert {await leases.lease(3600) for _ in range(1000)} == {1}
    assert {await leases.lease(3600) for _ in range(10)} == {2}
    await clock.run(60)
    assert await leases.lease(3600) == 2
    await clock.run(1)
    assert await leases.lease(3600) == 3
    # 1 h → 3660 s: what kube-apiserver asks for, measured.
    assert etcd.granted == [3660] * 3


@async_test
async def test_short_lives_are_exact_and_get_a_lease_each_time() -> None:
    etcd, clock = _Etcd(), FakeClock()
    leases = SharedLeases(etcd.grant, clock, EtcdOptions())
    assert await leases.lease(15) == 1
    await clock.run(10)
    assert await leases.lease(15) == 2
    assert await leases.lease(14.2) == 2  # in whole seconds
    assert await leases.lease(14) == 3
    assert etcd.granted == [15, 15, 14]


@async_test
async def test_who_comes_while_a_lease_is_asked_for_waits_for_the_same() -> None:
    etcd, clock = _Etcd(), FakeClock()
    leases = SharedLeases(etcd.grant, clock, EtcdOptions())
    first, second = asyncio.ensure_future(leases.lease(60)), asyncio.ensure_future(leases.lease(60))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1
    assert etcd.granted == [63]


@async_test
async def test_a_lease_that_etcd_did_not_give_or_has_forgotten_is_asked_for_again() -> None:
    etcd, clock = _Etcd(), FakeClock()
    leases = SharedLeases(etcd.grant, clock, EtcdOptions())
    etcd.failing = True
    with pytest.raises(ConnectionError):
        await leases.lease(60)
    etcd.failing = False
    assert await leases.lease(60) == 1
    leases.forget(1)
    assert await leases.lease(60) == 2
