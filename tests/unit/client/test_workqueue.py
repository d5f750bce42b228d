"""client/workqueue.py and client/rate_limiters.py: client-go's contract in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.client.rate_limiters import (
    CAP_SECONDS,
    CSR_BASE_SECONDS,
    ItemExponential,
    MaxOf,
    TokenBucket,
    controller_rate_limiter,
)
from kubevouch.client.workqueue import Workqueue, WorkqueueGauges, WorkqueueShutDown
from kubevouch.testing.clock import FakeClock

VECTORS = Path(__file__).parents[2] / "vectors"


async def taken(queue: Workqueue[str]) -> list[str]:
    """Everything that can be taken now."""
    keys = []
    while len(queue):
        keys.append(await queue.get())
    return keys


@async_test
async def test_a_waiting_key_waits_once() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock())
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert await taken(queue) == ["a", "b"]


@async_test
async def test_a_key_added_while_it_is_worked_on_comes_once_more_afterwards() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "two workers never have one key"
    queue.done("a")
    assert await taken(queue) == ["a"]
    queue.done("a")
    assert len(queue) == 0


@async_test
async def test_getters_are_served_in_order_and_each_key_goes_to_one() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock())
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    assert [await getter for getter in getters[:2]] == ["a", "b"]
    assert not getters[2].done()
    queue.shut_down()
    with pytest.raises(WorkqueueShutDown):
        await getters[2]


@async_test
async def test_a_cancelled_getter_loses_no_key() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second == "a"


@async_test
async def test_add_after_keeps_the_earliest_time() -> None:
    clock = FakeClock()
    queue: Workqueue[str] = Workqueue(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 5)
    queue.add_after("a", 7)
    queue.add_after("b", 6)
    await clock.run(4.9)
    assert await taken(queue) == []
    await clock.run(0.1)
    assert await taken(queue) == ["a"]
    queue.done("a")
    await clock.run(1)
    assert await taken(queue) == ["b"]
    await clock.run(10)
    assert await taken(queue) == [], "the later times of a are forgotten"
    queue.add_after("a", 0)
    assert await taken(queue) == ["a"]


@async_test
async def test_shutdown_gives_out_what_waits_and_drops_what_is_delayed() -> None:
    clock = FakeClock()
    queue: Workqueue[str] = Workqueue(clock)
    queue.add("a")
    queue.add_after("late", 1)
    queue.shut_down()
    queue.add("after")
    queue.add_after("after", 1)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.run(5)
    with pytest.raises(WorkqueueShutDown):
        await queue.get()
    await asyncio.sleep(0)
    assert clock.sleepers == 0


def test_the_certificate_controllers_series() -> None:
    line = next(
        x for x in (VECTORS / "controllers.jsonl").read_text().splitlines() if "ctl-approver-backoff-series" in x
    )
    expected = json.loads(line)["then"]["requeue_delays_ms"]
    limiter: ItemExponential[str] = ItemExponential(CSR_BASE_SECONDS, CAP_SECONDS)
    assert [round(limiter.when("csr-1") * 1000) for _ in expected] == expected
    assert limiter.requeues("csr-1") == len(expected)
    for _ in range(2000):
        assert limiter.when("csr-1") == CAP_SECONDS
    limiter.forget("csr-1")
    assert (limiter.requeues("csr-1"), limiter.when("csr-1")) == (0, CSR_BASE_SECONDS)


def test_the_bucket_reserves_so_that_a_burst_of_1000_spreads_over_90_seconds() -> None:
    clock = FakeClock()
    bucket: TokenBucket[int] = TokenBucket(10, 100, clock)
    waits = [bucket.when(key) for key in range(1000)]
    assert waits[:100] == [0.0] * 100
    assert waits[100] == pytest.approx(0.1)
    assert waits[-1] == pytest.approx(90.0)
    clock.advance(1000)
    assert bucket.when(0) == 0.0


def test_the_longest_wait_counts() -> None:
    clock = FakeClock()
    limiter: MaxOf[str] = controller_rate_limiter(clock)
    assert limiter.when("a") == 0.005
    for key in range(200):
        limiter.when(str(key))
    assert limiter.when("a") > 10
    assert limiter.requeues("a") == 2
    limiter.forget("a")
    assert limiter.requeues("a") == 0


class Recorder:
    def __init__(self) -> None:
        self.counts: dict[str, list[float]] = {"added": [], "retried": [], "waited": [], "worked": []}
        self.read: Callable[[], WorkqueueGauges] = lambda: WorkqueueGauges(-1, -1, -1)

    def gauges(self, read: Callable[[], WorkqueueGauges]) -> None:
        self.read = read

    def added(self) -> None:
        self.counts["added"].append(1)

    def retried(self) -> None:
        self.counts["retried"].append(1)

    def waited(self, seconds: float) -> None:
        self.counts["waited"].append(seconds)

    def worked(self, seconds: float) -> None:
        self.counts["worked"].append(seconds)


@async_test
async def test_metrics() -> None:
    clock, metrics = FakeClock(), Recorder()
    queue: Workqueue[str] = Workqueue(clock, metrics=metrics)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    clock.advance(2)
    await queue.get()
    clock.advance(3)
    await queue.get()
    clock.advance(1)
    assert metrics.read() == WorkqueueGauges(depth=0, unfinished_seconds=5, longest_running_seconds=4)
    queue.done("a")
    queue.add_rate_limited("a")
    await clock.run(1)
    assert metrics.read() == WorkqueueGauges(depth=1, unfinished_seconds=2, longest_running_seconds=2)
    assert metrics.counts == {"added": [1, 1, 1], "retried": [1], "waited": [2, 5], "worked": [4]}
    queue.shut_down()


def _by_letter(key: str) -> str:
    return key[0]


@async_test
async def test_flows_take_turns_and_each_keeps_its_order() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock(), flow=_by_letter)
    for key in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(key)
    assert len(queue) == 6
    assert await taken(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]


@async_test
async def test_a_flow_that_comes_finds_a_worker_that_is_free() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock(), flow=_by_letter, workers=9)
    workers = [asyncio.create_task(queue.get()) for _ in range(9)]
    for number in range(20):
        queue.add(f"a{number}")
    for number in range(20):
        queue.add(f"b{number}")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    begun = [worker.result() for worker in workers if worker.done()]
    assert sorted(key[0] for key in begun) == ["a"] * 4 + ["b"] * 4
    queue.add("c")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (last,) = (worker.result() for worker in workers if worker.done() and worker.result() not in begun)
    assert last == "c"
    assert queue.flow_of("c") == "c"


@async_test
async def test_no_key_is_left_waiting_when_workers_come_free() -> None:
    """Also of a flow that had as many as it may, and after a shutdown."""
    queue: Workqueue[str] = Workqueue(FakeClock(), flow=_by_letter, workers=3)
    done: list[str] = []

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except WorkqueueShutDown:
                return
            await asyncio.sleep(0)
            done.append(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    keys = [f"{letter}{number}" for letter in "ab" for number in range(20)]
    for key in keys:
        queue.add(key)
    queue.shut_down()
    await asyncio.gather(*workers)
    assert sorted(done) == sorted(keys)


@async_test
async def test_a_queue_with_one_worker_works_on_every_flow() -> None:
    queue: Workqueue[str] = Workqueue(FakeClock(), flow=_by_letter, workers=1)
    for key in ("a1", "a2", "b1"):
        queue.add(key)
    order = []
    while len(queue):
        order.append(await queue.get())
        queue.done(order[-1])
    assert order == ["a1", "b1", "a2"]
