from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import World, world
from kubevouch.api.catalog import EVENTS
from kubevouch.api.core_v1 import Event
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.testing.clock import FakeClock

ABOUT = ObjectReference(kind="CertificateSigningRequest", api_version="certificates.k8s.io/v1", name="csr-1", uid="u-1")


def recorder(at: World) -> EventRecorder:
    return EventRecorder(at.client, at.clock, "join-status-controller")


async def stored(at: World) -> list[Event]:
    return (await at.client.list(EVENTS, "default")).items


@async_test
async def test_the_same_again_counts_one_event_up() -> None:
    async with world() as at:
        events = recorder(at)
        await events.record(ABOUT, "Warning", "JoinNotApproved", "first")
        at.clock.advance(10.0)
        await events.record(ABOUT, "Warning", "JoinNotApproved", "second")
        (event,) = await stored(at)
        assert (event.count, event.message, event.reason) == (2, "second", "JoinNotApproved")
        assert event.first_timestamp is not None and event.last_timestamp is not None
        assert event.last_timestamp.seconds - event.first_timestamp.seconds == 10
        await events.record(ABOUT, "Normal", "JoinApproved", "x")
        assert len(await stored(at)) == 2


@async_test
async def test_after_a_restart_or_once_forgotten() -> None:
    async with world() as at:
        events = recorder(at)
        await events.record(ABOUT, "Warning", "JoinDenied", "x")
        await recorder(at).record(ABOUT, "Warning", "JoinDenied", "y")
        (event,) = await stored(at)
        assert (event.count, event.message) == (2, "y")
        await at.client.delete(EVENTS, event.metadata.name, "default")
        await events.record(ABOUT, "Warning", "JoinDenied", "z")
        assert [each.message for each in await stored(at)] == ["z"]


@pytest.mark.parametrize("name", ["node-csr-Zk_9", "x" * 253, "UPPER"])
@async_test
async def test_names_that_an_event_may_not_have(name: str) -> None:
    async with world() as at:
        about = ObjectReference(kind="CertificateSigningRequest", name=name)
        await recorder(at).record(about, "Normal", "JoinApproved", "é" * 2000)
        (event,) = await stored(at)
        assert event.metadata.name.startswith("certificatesigningrequest.")
        assert event.involved_object.name == name
        assert len(event.message.encode()) == 1024


def test_an_allowance_fills_up_again() -> None:
    clock = FakeClock()
    allowance = Allowance(clock, rate=2.0, burst=3)
    assert [allowance.take() for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    clock.advance(0.5)
    assert allowance.take() == 0.0 and allowance.take() > 0
    clock.advance(3600.0)
    assert [allowance.take() > 0 for _ in range(4)] == [False, False, False, True]
