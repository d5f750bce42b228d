"""controllers/outside_questions.py: who is asked when, what is kept, and that nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aio import until
from asynctest import async_test
from kubevouch.controllers import outside_questions
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, IgnorableError, Request, Result, UnansweredError
from kubevouch.controllers.outside_questions import (
    KEPT_SECONDS,
    OF_DESTINATION,
    OF_METHOD,
    OF_SOURCE,
    OF_SOURCE_AT_ONE,
    OutsideQuestions,
    Question,
)
from kubevouch.testing.clock import FakeClock


class Asking:
    """Questions whose answers come when the test has them come."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.woken: asyncio.Queue[str] = asyncio.Queue()
        self.questions = OutsideQuestions(self.clock, lambda request: self.woken.put_nowait(request.name))
        self.begun: list[str] = []
        self._answers: dict[str, asyncio.Future[Any]] = {}

    def ask(self, name: str, destination: str = "d", source: str = "s", method: str = "m", about: str = "") -> Any:
        async def ask() -> Any:
            self.begun.append(f"{name}{about}")
            return await self.future(f"{name}{about}")

        return self.questions.answer(Question(Request(name), name, method, destination, source, about), ask)

    def start(self, name: str, *where: str, **more: str) -> None:
        with pytest.raises(UnansweredError):
            self.ask(name, *where, **more)

    def future(self, name: str) -> asyncio.Future[Any]:
        return self._answers.setdefault(name, asyncio.get_running_loop().create_future())

    async def has_begun(self, count: int) -> list[str]:
        await until(lambda: len(self.begun) >= count)
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(self.begun) == count
        return self.begun

    async def answer(self, name: str, says: Any = "yes") -> None:
        future = self.future(name)
        if isinstance(says, Exception):
            future.set_exception(says)
        else:
            future.set_result(says)
        assert await self.woken.get() == name.rstrip("+")


def tried(test: Callable[[Asking], Awaitable[None]]) -> Callable[[], None]:
    @async_test
    async def run() -> None:
        at = Asking()
        await test(at)
        await at.questions.close()

    run.__name__ = test.__name__
    return run


@tried
async def test_an_answer_wakes_the_request_and_is_kept_for_a_while(at: Asking) -> None:
    at.start("a")
    at.start("a")
    assert await at.has_begun(1) == ["a"]
    await at.answer("a")
    assert at.ask("a") == "yes"
    at.clock.advance(KEPT_SECONDS - 0.01)
    assert at.ask("a") == "yes"
    at.clock.advance(0.01)
    at.start("a")
    await at.has_begun(2)


@tried
async def test_a_failure_is_what_the_worker_hears(at: Asking) -> None:
    at.start("a")
    await at.answer("a", ValueError("away"))
    with pytest.raises(ValueError, match="away"):
        at.ask("a")


@tried
async def test_what_is_broken_off_breaks_no_worker_off(at: Asking) -> None:
    at.start("a")
    await at.has_begun(1)
    at.future("a").cancel()
    assert await at.woken.get() == "a"
    with pytest.raises(IgnorableError, match="broken off"):
        at.ask("a")


@tried
async def test_the_first_of_two_answers_is_kept_until_the_second_is_there(at: Asking) -> None:
    at.start("a")
    at.start("a", about="+")
    await at.answer("a", ValueError("away"))
    at.clock.advance(100.0)
    with pytest.raises(ValueError, match="away"):
        at.ask("a")
    at.start("a", about="+")
    await at.answer("a+")
    assert at.ask("a", about="+") == "yes"
    assert len(at.begun) == 2


@tried
async def test_one_that_is_silent_keeps_no_room_of_others(at: Asking) -> None:
    for number in range(OF_SOURCE_AT_ONE * 10):
        at.start(f"silent-{number}", "silent", "thief")
    at.start("other place", "good", "thief")
    at.start("other source", "silent", "honest")
    at.start("other method", "silent", "thief", "other")
    begun = await at.has_begun(OF_SOURCE_AT_ONE + 3)
    assert begun[-3:] == ["other place", "other source", "other method"]


@tried
async def test_one_destination_has_so_much_room_whoever_asks(at: Asking) -> None:
    for number in range(OF_DESTINATION * 2):
        at.start(f"{number}", "silent", f"source-{number}")
    at.start("good", "good", "source-0")
    assert (await at.has_begun(OF_DESTINATION + 1))[-1] == "good"


@tried
async def test_many_silent_destinations_of_one_source_leave_room(at: Asking) -> None:
    for number in range(OF_METHOD * 2):
        at.start(f"{number}", f"silent-{number}", "thief")
    at.start("good", "good", "honest")
    assert (await at.has_begun(OF_SOURCE + 1))[-1] == "good"


@tried
async def test_a_method_has_so_much_room(at: Asking) -> None:
    for number in range(OF_METHOD + 5):
        at.start(f"{number}", f"d{number}", f"s{number}")
    await at.has_begun(OF_METHOD)
    at.start("good", method="other")
    assert (await at.has_begun(OF_METHOD + 1))[-1] == "good"


@tried
async def test_sources_take_turns_at_a_destination(at: Asking) -> None:
    full = [f"full-{number}" for number in range(OF_DESTINATION)]
    for number, name in enumerate(full):
        at.start(name, "d", f"full-{number // OF_SOURCE_AT_ONE}")
    for name in ("thief-1", "thief-2", "thief-3", "honest-1"):
        at.start(name, "d", name.partition("-")[0])
    await at.has_begun(OF_DESTINATION)
    for name in full[:4]:
        await at.answer(name)
    assert (await at.has_begun(OF_DESTINATION + 4))[-4:] == ["thief-1", "honest-1", "thief-2", "thief-3"]


@tried
async def test_destinations_take_turns(at: Asking) -> None:
    sources = [f"s{number}" for number in range(OF_METHOD)]
    for name in sources:
        at.start(name, f"d-{name}", name)
    for name in ("a1", "a2", "b1"):
        at.start(name, name[0], name)
    await at.has_begun(OF_METHOD)
    for name in sources[:3]:
        await at.answer(name)
    assert (await at.has_begun(OF_METHOD + 3))[-3:] == ["a1", "b1", "a2"]


@tried
async def test_nothing_is_kept_for_ever(at: Asking) -> None:
    for number in range(10):
        at.start(f"{number}", f"d{number}", f"s{number}", f"m{number}")
        await at.answer(f"{number}")
    at.clock.advance(KEPT_SECONDS)
    at.start("last")
    await at.answer("last")
    at.clock.advance(KEPT_SECONDS)
    at.start("very last")
    await at.answer("very last")
    at.clock.advance(KEPT_SECONDS)
    at.questions._forget()
    left = [table for table in vars(at.questions).values() if isinstance(table, dict | set)]
    assert len(left) >= 5 and not any(left)


@async_test
async def test_no_more_waits_than_there_may_be_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_questions, "MOST_WAITING", 3)
    at = Asking()
    for number in range(3):
        at.start(f"{number}")
    with pytest.raises(IgnorableError, match="3 questions wait"):
        at.ask("more")
    await at.questions.close()


@async_test
async def test_whoever_goes_on_with_the_queue_asks_again() -> None:
    at = Asking()
    for number in range(OF_SOURCE_AT_ONE + 2):
        at.start(f"{number}")
    await at.has_begun(OF_SOURCE_AT_ONE)
    await at.questions.close()
    assert {at.woken.get_nowait() for _ in range(OF_SOURCE_AT_ONE + 2)} == {str(each) for each in range(10)}
    assert (len(at.questions), at.questions.running) == (0, 0)
    at.start("0")
    await at.has_begun(OF_SOURCE_AT_ONE + 1)
    await at.questions.close()


class Reconciler:
    """Asks about each request, and lists those that were answered."""

    def __init__(self) -> None:
        self.questions: OutsideQuestions | None = None
        self.gate = asyncio.Event()
        self.done: list[str] = []

    async def reconcile(self, request: Request) -> Result:
        assert self.questions is not None
        if request.name.startswith("silent"):
            self.questions.answer(Question(request, request.name, "m", "silent", "s"), self.gate.wait)
        self.done.append(request.name)
        return DONE


@async_test
async def test_no_worker_waits_and_the_controller_is_not_idle_meanwhile() -> None:
    reconciler = Reconciler()
    controller = QueueController("test", reconciler, FakeClock(), workers=1)
    reconciler.questions = controller.questions
    for name in ("silent-1", "silent-2", "honest"):
        controller.queue.add(Request(name))
    run = asyncio.create_task(controller.run())
    await until(lambda: "honest" in reconciler.done)
    assert reconciler.done == ["honest"] and not controller.is_idle
    reconciler.gate.set()
    await until(lambda: controller.is_idle)
    assert sorted(reconciler.done) == ["honest", "silent-1", "silent-2"]
    assert all(controller.queue.requeues(Request(name)) == 0 for name in reconciler.done)
    run.cancel()
    await asyncio.wait({run})
