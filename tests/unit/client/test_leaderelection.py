"""client/leaderelection.py: the case file's cases and whole elections, each process with a clock of its own."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from asynctest import async_test
from kubevouch.api.coordination_v1 import LeaseSpec
from kubevouch.client.https import HTTPSClient
from kubevouch.client.leaderelection import (
    ElectionError,
    ElectionTimes,
    LeaderElector,
    LeadershipLost,
    LeaseName,
    claim,
    default_identity,
    released,
    verify_resource_lock,
)
from kubevouch.client.options import ClientOptions, Retry
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import MicroTime
from kubevouch.testing.clock import FakeClock
from scripted_server import ScriptedServer, reply_json, reply_status
from throwaway_ca import ThrowawayCA

CASES = {
    case["id"].removeprefix("ctl-leaderelection-"): case
    for line in (Path(__file__).parents[2] / "vectors/controllers.jsonl").read_text().splitlines()
    if (case := json.loads(line))["area"] == "leaderelection"
}
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NAME = LeaseName("kube-controller-manager")
PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Shelf:
    """One Lease behind a real server: versions, conflicts, and failures on cue."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        self.spec = spec
        self.version = 1
        self.calls: list[str] = []
        self.failing: Callable[[str], int] = lambda _method: 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(request.method)
        failure = self.failing(request.method)
        if failure:
            return await reply_status(failure, "InternalError", "boom")(request)
        if request.method == "GET":
            assert request.path == f"{PATH}/{NAME.name}"
            if self.spec is None:
                return await reply_status(404, "NotFound", "not found")(request)
            return await reply_json(self._document())(request)
        document = json.loads(await request.read())
        if request.method == "POST" and self.spec is not None:
            return await reply_status(409, "AlreadyExists", "already exists")(request)
        if request.method == "PUT" and document["metadata"].get("resourceVersion") != str(self.version):
            return await reply_status(409, "Conflict", "the object has been modified")(request)
        self.spec = document["spec"]
        self.version += 1
        return await reply_json(self._document(), 201 if request.method == "POST" else 200)(request)

    def _document(self) -> dict[str, Any]:
        metadata = {"name": NAME.name, "namespace": NAME.namespace, "resourceVersion": str(self.version)}
        return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": self.spec}


class Candidate:
    """A process: its clock, its elector, and what it did."""

    def __init__(self, client: HTTPSClient, identity: str, clock: FakeClock, **settings: Any) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.leads = asyncio.Event()
        self.elector = LeaderElector(
            client, NAME, identity, clock, random=lambda: 0.0, on_started=self.log.append, on_stopped=self.log.append,
            metrics=self, **settings,
        )  # fmt: skip
        self.task: asyncio.Task[None] | None = None

    def leading(self, leads: bool) -> None:
        self.log.append(f"status {leads:d}")

    def slow_path(self) -> None:
        self.log.append("slow path")

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.elector.run(self._lead))
        return self.task

    async def _lead(self) -> None:
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


@asynccontextmanager
async def election(
    ca: ThrowawayCA, serving: ssl.SSLContext, spec: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Shelf, Callable[..., Candidate]]]:
    shelf = Shelf(spec)
    candidates: list[Candidate] = []
    async with ScriptedServer(serving) as server:
        server.script(shelf)
        still = FakeClock()  # requests do not time out
        options = ClientOptions(server.url, protobuf=False, retry=Retry(attempts=1))
        async with HTTPSClient(options, tls=TLSFiles(TLSSources(ca.bundle), still), clock=still) as client:

            def candidate(identity: str = "h_1", clock: FakeClock | None = None, **settings: Any) -> Candidate:
                candidates.append(Candidate(client, identity, clock or FakeClock(NOW), **settings))
                return candidates[-1]

            yield shelf, candidate
            for one in candidates:
                await one.stop()


async def pass_time(candidate: Candidate, seconds: float, shelf: Shelf) -> None:
    """Second by second, with the requests of each carried out."""
    for _ in range(round(seconds)):
        await candidate.clock.until_asleep()
        calls = len(shelf.calls)
        candidate.clock.advance(1)
        await settle(shelf, calls)


async def settle(shelf: Shelf, calls: int) -> None:
    """Let requests that have been woken up come and go."""
    for _ in range(200):
        await asyncio.sleep(0)
        if len(shelf.calls) > calls:
            calls = len(shelf.calls)
            for _ in range(200):
                await asyncio.sleep(0)


# ------------------------------------------------------------------ the case file


@pytest.mark.parametrize(
    "name",
    [
        "create",
        "held-first-sight-ancient-renewtime",
        "empty-holder-free-at-once",
        "own-identity-on-restart",
    ],
)
def test_first_attempt(ca: ThrowawayCA, serving: ssl.SSLContext, name: str) -> None:
    given, then = CASES[name]["given"], CASES[name]["then"]

    @async_test
    async def scenario() -> None:
        async with election(ca, serving, given["lease"]) as (shelf, candidate):
            one = candidate(given["identity"])
            one.start()
            await one.clock.until_asleep()
            assert one.leads.is_set() is then["acquired"]
            if "api_calls" in then:
                assert shelf.calls == then["api_calls"]
            assert shelf.spec is not None
            for field, value in then.get("spec", {}).items():
                assert shelf.spec[field] == value, field
            if "event" in then:
                assert then["event"]["message"] in one.log

    scenario()


@async_test
async def test_renew_fast_path(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate()
        one.start()
        await one.leads.wait()
        shelf.calls.clear()
        await pass_time(one, 4, shelf)
        assert shelf.calls == ["PUT", "PUT"], "a blind write every two seconds"
        assert shelf.spec is not None
        assert shelf.spec["renewTime"] == "2026-11-21T12:00:04.000000Z"
        assert (shelf.spec["acquireTime"], shelf.spec["leaseTransitions"]) == ("2026-11-21T12:00:00.000000Z", 0)


@async_test
async def test_renew_slow_path(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate()
        one.start()
        await one.leads.wait()
        shelf.calls.clear()
        shelf.version += 1  # somebody put a label on it
        await pass_time(one, 2, shelf)
        assert shelf.calls == CASES["renew-slow-path"]["then"]["api_calls"]
        assert one.leads.is_set() and one.log[-1] == "slow path"


@async_test
async def test_renew_fails_for_ten_seconds(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    then = CASES["renew-fails-10s"]["then"]
    async with election(ca, serving) as (shelf, candidate):
        one = candidate()
        task = one.start()
        await one.leads.wait()
        shelf.failing = lambda _method: 500
        await pass_time(one, 2 + then["after_s"] - 1, shelf)
        assert one.leads.is_set()
        await pass_time(one, 1, shelf)
        with pytest.raises(LeadershipLost, match="kube-system/kube-controller-manager was not renewed within 10 s"):
            await task
        assert not one.leads.is_set(), "what leads has ended before the loss is reported"
        assert one.log[-2:] == ["status 0", then["event"]["message"]]


@async_test
async def test_a_stolen_lease_is_never_overwritten(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate()
        task = one.start()
        await one.leads.wait()
        shelf.spec, shelf.version = CASES["renew-stolen"]["given"]["lease"], 77
        await pass_time(one, 12, shelf)
        with pytest.raises(LeadershipLost):
            await task
        assert shelf.spec["holderIdentity"] == "h_2" and one.elector.leader == "h_2"


@async_test
async def test_release(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    then = CASES["release"]["then"]
    async with election(ca, serving, {"leaseTransitions": 1}) as (shelf, candidate):
        one = candidate(release_on_stop=True)
        one.start()
        await one.leads.wait()
        shelf.calls.clear()
        await one.stop()
        assert shelf.calls == then["api_calls"]
        assert shelf.spec == then["spec"]
        assert not one.elector.leading
        two = candidate("h_2")
        two.start()
        await two.leads.wait()
        assert shelf.spec is not None
        assert shelf.spec["leaseTransitions"] == 3


@async_test
async def test_no_release_by_default(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate()
        one.start()
        await one.leads.wait()
        shelf.calls.clear()
        await one.stop()
        assert shelf.calls == []


@async_test
async def test_somebody_else_s_lease_is_not_released(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate(release_on_stop=True)
        one.start()
        await one.leads.wait()
        assert shelf.spec is not None
        shelf.spec["holderIdentity"] = "h_2"
        await one.stop()
        assert shelf.spec["holderIdentity"] == "h_2" and shelf.calls[-1] == "GET"


@pytest.mark.parametrize("name", ["config-duration-vs-deadline", "config-deadline-vs-retry", "config-retry-zero"])
def test_times(name: str) -> None:
    given = CASES[name]["given"]
    times = ElectionTimes(*(float(given[key].rstrip("s")) for key in ("leaseDuration", "renewDeadline", "retryPeriod")))
    with pytest.raises(ElectionError) as caught:
        times.verify()
    assert str(caught.value) == CASES[name]["then"]["error"]


def test_leases_are_the_only_lock() -> None:
    case = CASES["config-lock-type"]
    with pytest.raises(ElectionError) as caught:
        verify_resource_lock(case["given"]["resourceLock"])
    assert str(caught.value) == case["then"]["error"]
    assert verify_resource_lock("leases") == "leases"


def test_the_defaults_hold() -> None:
    assert ElectionTimes().verify().request_timeout == 5.0
    assert ElectionTimes(3, 1.5, 0.5).request_timeout == 1.0


@async_test
async def test_health(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    then = CASES["healthz"]["then"]
    async with election(ca, serving) as (_, candidate):
        one, two = candidate(), candidate("h_2")
        one.start()
        await one.leads.wait()
        two.start()
        await two.clock.until_asleep()
        one.clock._elapsed += then["limit_s"] * 1_000_000  # nobody is woken: the loop hangs
        one.elector.verify_health()
        one.clock._elapsed += 1_000_000
        with pytest.raises(LeadershipLost) as caught:
            one.elector.verify_health()
        assert str(caught.value) == then["error"]
        two.clock._elapsed += 3600 * 1_000_000
        two.elector.verify_health()


# ------------------------------------------------------------------ elections


@async_test
async def test_a_newcomer_waits_a_full_duration_by_its_own_clock(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    ancient = CASES["held-first-sight-ancient-renewtime"]["given"]["lease"]
    async with election(ca, serving, ancient) as (shelf, candidate):
        one = candidate()
        one.start()
        await pass_time(one, 14, shelf)
        assert not one.leads.is_set() and one.elector.leader == "h_2"
        await pass_time(one, 2, shelf)
        await one.leads.wait()
        assert shelf.spec is not None and shelf.spec["leaseTransitions"] == 4


@async_test
async def test_the_stored_duration_counts_not_the_own_one(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    held = {"holderIdentity": "h_2", "leaseDurationSeconds": 60, "renewTime": "2020-01-01T00:00:00.000000Z"}
    async with election(ca, serving, held) as (shelf, candidate):
        one = candidate()
        one.start()
        await pass_time(one, 59, shelf)
        assert not one.leads.is_set()
        await pass_time(one, 3, shelf)
        await one.leads.wait()


@async_test
async def test_wall_clocks_that_differ_do_not_split_the_brain(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (shelf, candidate):
        one = candidate("h_1", FakeClock(NOW - dt.timedelta(days=900)))
        two = candidate("h_2", FakeClock(NOW + dt.timedelta(days=900)))
        one.start()
        await one.leads.wait()
        two.start()
        for _ in range(60):
            await pass_time(one, 1, shelf)
            await pass_time(two, 1, shelf)
            assert one.leads.is_set() and not two.leads.is_set()
        await one.stop()
        await pass_time(two, 18, shelf)
        await two.leads.wait()
        assert shelf.spec is not None and shelf.spec["leaseTransitions"] == 1


@async_test
async def test_the_end_of_the_work_ends_the_leadership(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with election(ca, serving) as (_, candidate):
        one = candidate()

        async def done() -> None:
            pass

        async def broken() -> None:
            raise ValueError("my own fault")

        await one.elector.run(done)
        with pytest.raises(ValueError, match="my own fault"):
            await one.elector.run(broken)
        assert one.log.count("h_1 stopped leading") == 2


@async_test
async def test_new_leaders_are_reported_once_each(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    held = {"holderIdentity": "h_2", "leaseDurationSeconds": 15}
    seen: list[str] = []
    async with election(ca, serving, held) as (shelf, candidate):
        one = candidate(on_new_leader=seen.append)
        one.start()
        await pass_time(one, 20, shelf)
        await one.leads.wait()
        assert seen == ["h_2", "h_1"]


def test_an_election_needs_an_identity(ca: ThrowawayCA) -> None:
    with pytest.raises(ElectionError, match="Lock identity is empty"):
        LeaderElector(HTTPSClient(ClientOptions("https://x")), NAME, "", FakeClock())
    assert default_identity() != default_identity()
    assert "_" in default_identity()


def test_records() -> None:
    now, later = MicroTime(1_000_000), MicroTime(9_000_000)
    first = claim(None, "a", 15, now)
    assert json_codec.to_builtins(first) == {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "1970-01-01T00:00:01.000000Z",
        "renewTime": "1970-01-01T00:00:01.000000Z", "leaseTransitions": 0,
    }  # fmt: skip
    assert claim(first, "a", 15, later) == msgspec.structs.replace(first, renew_time=later)
    assert claim(first, "b", 14.2, later) == LeaseSpec(
        holder_identity="b", lease_duration_seconds=15, acquire_time=later, renew_time=later, lease_transitions=1
    )
    assert claim(released(first, later), "b", 15, later).lease_transitions == 1
    assert claim(LeaseSpec(), "b", 15, later).lease_transitions == 1
