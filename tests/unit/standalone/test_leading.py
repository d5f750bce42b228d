"""standalone/leading.py: of the controllers of several servers those of one work, and others as soon as they may."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from asynctest import async_test
from join_requests import GROUPS, node_request
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import NotLeading
from kubevouch.client.leader_election import LEASE_NAME, ElectionOptions
from kubevouch.phases import bootstrap_token
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records.bootstrap_tokens import Token
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.controllers import ControllerPlan
from kubevouch.standalone.leading import LedControllers
from kubevouch.testing.clock import FakeClock, settle
from replicas_world import Replica, replicas

_CONTROLLERS = ("csrapproving", "csrsigning", "crlpublisher")


@contextlib.asynccontextmanager
async def _nowhere() -> AsyncIterator[None]:
    yield None


def _led(replica: Replica) -> LedControllers:
    return LedControllers(replica.server, ControllerPlan(replica.server, _CONTROLLERS), ElectionOptions(), _nowhere)


async def _until(clock: FakeClock, condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """How long it took by the clock."""
    begun = clock.monotonic()
    while not condition():
        assert clock.monotonic() - begun < seconds
        clock.advance(0.05)
        await settle()
    return clock.monotonic() - begun


async def _allow(server: Replica) -> None:
    """Machines with a bootstrap token may join, as after a first start."""
    token = Token("abcdef", "0123456789abcdef")
    plan = bootstrap_token.plan(token, now=server.server.clock.now(), ttl=dt.timedelta())
    await bootstrap_token.create(server.client, plan)


async def _is_issued(clock: FakeClock, replica: Replica, name: str) -> None:
    user = UserInfo("system:bootstrap:abcdef", groups=(*GROUPS, wellknown.AUTHENTICATED_GROUP))
    csr = node_request(name, name, keys.generate(KeyAlgorithm.ECDSA_P256))
    client = replica.server.api.loopback(user, "kubelet")
    await client.create(catalog.CERTIFICATE_SIGNING_REQUESTS, csr)
    cache = replica.server.api.caches["certificatesigningrequests"]
    await _until(clock, lambda: bool((found := cache.get(f"{cache.prefix}{name}")) and found.obj.status.certificate))


@async_test
async def test_one_leads_and_another_takes_over_where_it_stops_dies_or_is_cut_off(tmp_path: Path) -> None:
    clock = FakeClock()
    async with replicas(3, tmp_path, clock) as servers:
        await own_kinds.ensure(servers[0].client)
        await _allow(servers[0])
        led = [_led(each) for each in servers]
        try:
            await _until(clock, lambda: any(each.manager for each in led))
            order: list[int] = []

            def leaders() -> list[int]:
                return [number for number, each in enumerate(led) if each.leads]

            def another() -> bool:
                return len(leaders()) == 1 and led[leaders()[0]].manager is not None and leaders()[0] not in order

            await _is_issued(clock, servers[0], "worker-1")
            order += leaders()
            labels = {"name": LEASE_NAME}
            said = [
                each.server.api.metrics.registry.get_sample_value("leader_election_master_status", labels)
                for each in servers
            ]
            assert said == [float(number in order) for number in range(3)]
            # Whoever is asked has the lists of what is revoked.
            await _until(clock, lambda: all(each.server.publication.documents for each in servers))
            # One that stops gives the Lease back.
            await led[order[0]].close()
            assert await _until(clock, another) < 5
            order += leaders()
            await _is_issued(clock, servers[order[0]], "worker-2")
            # One that hears nothing from the store leads no more before another one may.
            cut = servers[order[1]]
            cut.link.cut()
            await _until(clock, lambda: not led[order[1]].leads)
            assert leaders() == []
            assert await _until(clock, another) < 15
            await _is_issued(clock, servers[order[0]], "worker-3")
            cut.link.mend()
            await clock.run(10)
            assert order[1] not in leaders()
            assert led[order[1]].manager is None
        finally:
            for each in servers:
                each.link.mend()
            for controllers in led:
                await controllers.close()


@async_test
async def test_who_leads_no_more_writes_nothing(tmp_path: Path) -> None:
    clock, leads = FakeClock(), True
    async with replicas(1, tmp_path, clock) as (server,):
        user = UserInfo("system:apiserver", groups=("system:masters",))
        client = server.server.api.loopback(user, "controller", lambda: leads)
        leads = False
        with pytest.raises(NotLeading):
            await client.delete(catalog.NAMESPACES, "default")
        assert (await client.raw("GET", "/api/v1/namespaces/default")).status == 200
        with pytest.raises(NotLeading):
            await client.raw("DELETE", "/api/v1/namespaces/default")
