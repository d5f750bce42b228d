"""Over a real server in this process; time is the test's."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, world
from kubevouch.api.catalog import LEASES
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.client.interface import Client, ConnectFailed
from kubevouch.client.leader_election import (
    ElectionOptions,
    ElectionOptionsError,
    LeaderElector,
    LeaseLostError,
    own_identity,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.clock import FakeClock, settle

_TURNS = 6
OPTIONS = ElectionOptions()


class Line:
    """A client that can be cut off, before a request or between a request and its answer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_cut = self.loses_answers = self.is_silent = False
        self.writes = 0

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self._client, verb)

        async def made(*arguments: Any, **more: Any) -> Any:
            if self.is_silent:
                await asyncio.Event().wait()
            if self.is_cut:
                raise ConnectFailed("cut off")
            self.writes += verb != "get"
            answer = await call(*arguments, **more)
            if self.loses_answers:
                raise ConnectFailed("cut off")
            return answer

        return made


class Candidate:
    """One process that stands, and what it does when it leads."""

    def __init__(self, at: World, name: str, clock: FakeClock | None = None) -> None:
        self.line = Line(at.client)
        client: Any = self.line
        self.clock = clock or at.clock
        self.heard: list[str] = []
        self.elector = LeaderElector(
            client, OPTIONS, self.clock, identity=name, random=lambda: 0.0, on_leader=self.heard.append
        )
        self.works = False
        self.terms = 0
        self.task: asyncio.Task[None] | None = None

    async def work(self) -> None:
        self.works = True
        self.terms += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    def stand(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.elector.lead(self.work))
        return self.task


@asynccontextmanager
async def election(*names: str) -> AsyncIterator[tuple[World, list[Candidate]]]:
    async with world() as at:
        candidates = [Candidate(at, name) for name in names]
        try:
            yield at, candidates
        finally:
            for each in candidates:
                if each.task is not None:
                    each.task.cancel()
                    await asyncio.wait({each.task})


async def turns() -> None:
    for _ in range(_TURNS):
        await settle()


async def pass_time(clock: FakeClock, seconds: float) -> None:
    """By quarters of a second, with turns enough for a request in between."""
    for _ in range(round(seconds * 4)):
        clock.advance(0.25)
        await turns()


async def stored(at: World) -> Any:
    return (await at.client.get(LEASES, OPTIONS.name, OPTIONS.namespace)).spec


@async_test
async def test_the_first_leads_and_the_second_waits() -> None:
    async with election("a", "b") as (at, (first, second)):
        first.stand()
        await turns()
        second.stand()
        await pass_time(at.clock, 60)
        assert (first.works, second.works) == (True, False)
        assert (first.heard, second.heard) == (["a"], ["a"])
        spec = await stored(at)
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("a", 15, 0)
        assert (spec.renew_time.datetime() - spec.acquire_time.datetime()) >= dt.timedelta(seconds=56)


@async_test
async def test_one_that_stops_gives_the_lease_back_at_once() -> None:
    async with election("a", "b") as (at, (first, second)):
        task = first.stand()
        await turns()
        second.stand()
        await pass_time(at.clock, 5)
        task.cancel()
        await turns()
        spec = await stored(at)
        assert (first.works, spec.holder_identity, spec.lease_duration_seconds) == (False, "", 1)
        await pass_time(at.clock, 2.25)
        assert second.works
        assert (await stored(at)).lease_transitions == 1


@async_test
async def test_a_lease_that_has_counted_as_far_as_it_can_is_acquired() -> None:
    async with election("a") as (at, (first,)):
        meta = ObjectMeta(name=OPTIONS.name, namespace=OPTIONS.namespace)
        await at.client.create(LEASES, Lease(metadata=meta, spec=LeaseSpec(lease_transitions=2**31 - 1)))
        first.stand()
        await turns()
        assert first.works
        spec = await stored(at)
        assert (spec.holder_identity, spec.lease_transitions) == ("a", 2**31 - 1)


@async_test
async def test_one_that_is_killed_is_followed_when_its_lease_has_been_seen_unchanged_for_as_long_as_it_says() -> None:
    async with election("a", "b") as (at, (first, second)):
        first.stand()
        await turns()
        second.stand()
        await pass_time(at.clock, 4)
        # Nothing of it arrives any more, as after kill -9; its own end is below.
        first.line.is_cut = True
        await pass_time(at.clock, 12)
        assert not second.works
        await pass_time(at.clock, 5)
        assert second.works


@async_test
async def test_who_cannot_renew_stops_before_anybody_else_may_begin() -> None:
    async with election("a", "b") as (at, (first, second)):
        task = first.stand()
        await turns()
        second.stand()
        await pass_time(at.clock, 4)
        first.line.is_cut = True
        # The last renewal was sent at most two seconds ago.
        await pass_time(at.clock, 8)
        assert first.works
        await pass_time(at.clock, 2.25)
        assert (first.works, second.works) == (False, False)
        with pytest.raises(LeaseLostError, match="could not be renewed for 10 s"):
            await task


@async_test
async def test_a_server_that_says_nothing_ends_a_term_in_time_too() -> None:
    async with election("a") as (at, (only,)):
        task = only.stand()
        await turns()
        only.line.is_silent = True
        await pass_time(at.clock, 10.25)
        assert not only.works
        assert not only.elector.may_act
        await pass_time(at.clock, 6)  # it also tries to give back what it has
        with pytest.raises(LeaseLostError):
            await task


@async_test
async def test_who_stood_still_while_its_lease_ended_may_write_nothing_when_it_goes_on() -> None:
    async with election("a") as (at, (only,)):
        only.stand()
        await turns()
        assert only.elector.may_act
        at.clock.advance(30)  # SIGSTOP, SIGCONT: whoever is due has not had his turn yet
        assert only.works
        assert not only.elector.may_act


@async_test
async def test_a_machine_that_was_suspended_may_write_nothing_though_its_monotonic_clock_stood_still() -> None:
    async with election("a") as (at, (only,)):
        only.stand()
        await turns()
        at.clock.set(at.clock.now() + dt.timedelta(hours=1))
        assert not only.elector.may_act


@async_test
async def test_a_clock_that_is_hours_off_takes_no_lease_too_soon() -> None:
    for hours in (-5, 5):
        async with world() as at:
            other = FakeClock(at.clock.now() + dt.timedelta(hours=hours))
            first, second = Candidate(at, "a"), Candidate(at, "b", other)
            tasks = {first.stand()}
            await turns()
            tasks.add(second.stand())
            for _ in range(120):
                at.clock.advance(0.25)
                other.advance(0.25)
                await turns()
            assert (first.works, second.works) == (True, False)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@async_test
async def test_a_holder_that_somebody_wrote_into_the_lease_is_followed_at_once() -> None:
    async with election("a") as (at, (only,)):
        task = only.stand()
        await turns()
        lease = await at.client.get(LEASES, OPTIONS.name, OPTIONS.namespace)
        await at.client.update(
            LEASES, msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, holder_identity="thief"))
        )
        await pass_time(at.clock, 2.25)
        assert not only.works
        with pytest.raises(LeaseLostError, match="is held by thief"):
            await task
        assert (await stored(at)).holder_identity == "thief"


@async_test
async def test_a_lease_that_was_deleted_or_touched_is_taken_again_without_a_pause() -> None:
    async with election("a") as (at, (only,)):
        only.stand()
        await turns()
        await at.client.delete(LEASES, OPTIONS.name, OPTIONS.namespace)
        await pass_time(at.clock, 2.25)
        lease = await at.client.get(LEASES, OPTIONS.name, OPTIONS.namespace)
        meta = msgspec.structs.replace(lease.metadata, labels={"somebody": "was-here"})
        await at.client.update(LEASES, msgspec.structs.replace(lease, metadata=meta))
        await pass_time(at.clock, 30)
        kept = await at.client.get(LEASES, OPTIONS.name, OPTIONS.namespace)
        assert (only.works, only.terms, kept.spec.holder_identity) == (True, 1, "a")
        assert kept.metadata.labels == {"somebody": "was-here"}


@async_test
async def test_an_answer_that_is_lost_is_no_second_holder() -> None:
    async with election("a") as (at, (only,)):
        only.stand()
        await turns()
        only.line.loses_answers = True
        await pass_time(at.clock, 6)
        only.line.loses_answers = False
        await pass_time(at.clock, 30)
        assert (only.works, only.terms) == (True, 1)
        assert (await stored(at)).lease_transitions == 0


@async_test
async def test_of_many_at_once_one_leads() -> None:
    async with election(*"abcdefgh") as (at, candidates):
        for each in candidates:
            each.stand()
        await pass_time(at.clock, 20)
        assert [each.works for each in candidates].count(True) == 1
        assert {tuple(each.heard) for each in candidates} == {((await stored(at)).holder_identity,)}


@async_test
async def test_a_term_ends_with_its_work_and_its_failure_is_the_callers() -> None:
    async def crash() -> None:
        raise ZeroDivisionError

    async with election("a") as (at, (only,)):
        with pytest.raises(ZeroDivisionError):
            await only.elector.lead(crash)
        assert (await stored(at)).holder_identity == ""
        only.stand()
        await pass_time(at.clock, 3)
        assert only.works


@async_test
async def test_a_second_cancellation_while_the_work_winds_up_is_not_lost() -> None:
    async with election("a") as (_, (only,)):
        release = asyncio.Event()

        async def slow_to_end() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await release.wait()

        task = asyncio.create_task(only.elector.lead(slow_to_end))
        await turns()
        task.cancel()
        await turns()
        task.cancel()
        await turns()
        assert not task.done()
        release.set()
        await asyncio.wait({task})
        assert task.cancelled()


@pytest.mark.parametrize(
    ("duration", "renew", "retry", "text"),
    [
        (10, 10, 2, "leaseDuration must be greater than renewDeadline"),
        (15, 2, 2, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (15, 10, 0, "retryPeriod must be greater than zero"),
        (0.5, 0.3, 0.1, "leaseDuration must be at least one second"),
    ],
)
def test_durations_with_which_two_could_lead_are_refused(
    duration: float, renew: float, retry: float, text: str
) -> None:
    seconds = [dt.timedelta(seconds=each) for each in (duration, renew, retry)]
    with pytest.raises(ElectionOptionsError) as caught:
        ElectionOptions("kube-system", "x", *seconds)
    assert str(caught.value) == text


def test_two_processes_of_one_machine_are_two() -> None:
    assert own_identity() != own_identity()
