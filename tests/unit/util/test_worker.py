"""util/worker.py: whose turn it is, and what runs where."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter

import pytest

import aio
from kubevouch.util import worker
from kubevouch.util.worker import (
    LARGE_BYTES,
    FairQueue,
    Share,
    Worker,
    beside_loop,
    compute,
    current_flow,
    elsewhere,
    give_way_to_loop,
    is_beside_loop,
    sharing,
    weigh,
    with_key,
    working_for,
)

# ------------------------------------------------------------------ whose turn it is


def _served(queue: FairQueue[str], count: int, cost: dict[str, float]) -> list[str]:
    """The flows of the next ``count`` jobs, each charged what its flow's jobs cost."""
    flows = []
    for _ in range(count):
        taken = queue.take()
        assert taken is not None
        flow, _ = taken
        queue.charge(flow, cost[flow])
        flows.append(flow)
    return flows


def test_flows_get_equal_time_whatever_they_send() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(1000):
        for flow in ("dear", "cheap"):
            queue.add(flow, str(number))
    counts = Counter(_served(queue, 220, {"dear": 1.0, "cheap": 0.1}))
    assert counts["cheap"] == pytest.approx(10 * counts["dear"], abs=10)


def test_who_comes_is_next_however_many_wait() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(500):
        queue.add("flood", str(number))
    _served(queue, 20, {"flood": 1.0})
    queue.add("other", "one")
    assert "other" in _served(queue, 2, {"flood": 1.0, "other": 1.0})


def test_nobody_saves_up_time() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(200):
        queue.add("busy", str(number))
    _served(queue, 100, {"busy": 1.0})
    for number in range(200):
        queue.add("idle until now", str(number))
    counts = Counter(_served(queue, 20, {"busy": 1.0, "idle until now": 1.0}))
    assert abs(counts["busy"] - counts["idle until now"]) <= 1


def test_flows_that_have_gone_are_forgotten() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add("always", "0")
    for number in range(2000):
        queue.add("always", str(number))
        queue.add(f"once {number}", "x")
        _served(queue, 2, {"always": 1.0, f"once {number}": 1.0})
    assert len(queue._used) < 200
    while queue.take() is not None:
        pass
    queue.charge("always", 1.0)
    assert not queue._used
    assert len(queue) == 0


# ------------------------------------------------------------------ what runs where


def _thread(*_: object) -> int:
    return threading.get_ident()


def test_only_large_requests_leave_the_loop() -> None:
    async def scenario() -> None:
        here, made = threading.get_ident(), Worker()
        assert await compute(_thread) == here
        with sharing(Share(made, "a")):
            assert await compute(_thread) == here
            weigh(LARGE_BYTES)
            assert not worker.is_large()
            weigh(LARGE_BYTES + 1)
            assert worker.is_large()
            assert await compute(_thread) != here
        assert not worker.is_large()
        assert await compute(_thread) == here
        assert made.jobs == 1

    aio.run(scenario())


def test_errors_and_results_come_back() -> None:
    async def scenario() -> None:
        made = Worker()
        assert await made.run("a", "x".join, "ab") == "axb"
        with pytest.raises(ZeroDivisionError):
            await made.run("a", divmod, 1, 0)
        assert made.jobs == 2

    aio.run(scenario())


def test_one_job_runs_at_a_time_and_flows_take_turns() -> None:
    async def scenario() -> None:
        made, order, gate = Worker(), list[str](), threading.Event()

        def job(name: str) -> None:
            gate.wait()
            order.append(name)

        flood = [asyncio.ensure_future(made.run("flood", job, "flood")) for _ in range(50)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(made.run("other", job, "other"))
        await asyncio.sleep(0)
        assert made.waiting == 50
        gate.set()
        await other
        assert order.index("other") == 1
        await asyncio.gather(*flood)

    aio.run(scenario())


def test_work_that_nobody_waits_for_is_left_out() -> None:
    async def scenario() -> None:
        made, done, gate = Worker(), list[int](), threading.Event()
        first = asyncio.ensure_future(made.run("a", gate.wait))
        left = asyncio.ensure_future(made.run("a", done.append, 1))
        last = asyncio.ensure_future(made.run("a", done.append, 2))
        await asyncio.sleep(0)
        left.cancel()
        gate.set()
        await asyncio.gather(first, last)
        assert done == [2]

    aio.run(scenario())


def test_work_can_tell_where_it_is() -> None:
    assert not is_beside_loop()
    assert beside_loop(is_beside_loop)
    assert not is_beside_loop()


def test_the_interpreter_changes_hands_quickly_until_the_last_has_ended() -> None:
    usual, inside = sys.getswitchinterval(), list[float]()

    def outer() -> None:
        beside_loop(lambda: inside.append(sys.getswitchinterval()))
        inside.append(sys.getswitchinterval())

    beside_loop(outer)
    assert inside == [pytest.approx(0.0005)] * 2
    assert sys.getswitchinterval() == pytest.approx(usual)


def test_long_work_lets_the_loop_go_first() -> None:
    async def scenario() -> None:
        loop, order = asyncio.get_running_loop(), list[str]()

        def work() -> None:
            loop.call_soon_threadsafe(order.append, "due")
            give_way_to_loop()
            order.append("work")

        with working_for("a"):
            await elsewhere(work)
        assert order == ["due", "work"]
        give_way_to_loop()  # where there is no loop to wait for it does nothing

    aio.run(scenario())


def test_who_works_for_whom() -> None:
    async def scenario() -> None:
        assert current_flow() == ""
        with working_for("outer"):
            with working_for("inner"):
                assert current_flow() == "inner"
            assert current_flow() == "outer"
            controllers = await elsewhere(_name)
        assert {await elsewhere(_name), controllers, await with_key(_name)} == {
            "ThreadPoolExecutor-worker_0", "ThreadPoolExecutor-controllers_0", "ThreadPoolExecutor-keys_0",
        }  # fmt: skip

    aio.run(scenario())


def _name() -> str:
    return threading.current_thread().name
