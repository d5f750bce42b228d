"""The buffer between requests and a slow backend."""

import asyncio

from asynctest import async_test
from kubevouch.server.audit.batch import Batches, DeliveryError
from kubevouch.testing.clock import FakeClock


class Collector:
    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.lost = 0
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def deliver(self, events: list[bytes]) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.batches.append(events)

    def note(self, count: int) -> None:
        self.lost += count


@async_test
async def test_a_full_batch_goes_at_once_and_the_rest_after_the_wait() -> None:
    clock, found = FakeClock(), Collector()
    batches = Batches(found.deliver, clock, size=2, wait=30, on_lost=found.note)
    for event in (b"1", b"2", b"3"):
        batches.record(event)
    await clock.until_asleep()
    assert found.batches == [[b"1", b"2"]]
    clock.advance(30)
    await asyncio.sleep(0)
    await batches.close()
    assert found.batches == [[b"1", b"2"], [b"3"]]


@async_test
async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    found = Collector()
    found.gate.clear()
    batches = Batches(found.deliver, FakeClock(), size=1, buffer=2, on_lost=found.note)
    batches.record(b"1")
    await asyncio.sleep(0)  # now it is under way
    for event in (b"2", b"3", b"4", b"5"):
        batches.record(event)
    assert found.lost == 2
    found.gate.set()
    await batches.close()
    assert found.batches == [[b"1"], [b"2"], [b"3"]]


@async_test
async def test_a_failed_delivery_is_counted_and_the_next_goes_on() -> None:
    found = Collector()
    batches = Batches(found.deliver, FakeClock(), size=1, on_lost=found.note)
    found.failure = DeliveryError("no")
    batches.record(b"1")
    for _ in range(3):
        await asyncio.sleep(0)
    found.failure = None
    batches.record(b"2")
    await batches.close()
    assert (found.lost, found.batches) == (1, [[b"2"]])


@async_test
async def test_closing_does_not_wait_for_a_batch_to_become_full() -> None:
    found = Collector()
    batches = Batches(found.deliver, FakeClock(), size=10, wait=30, on_lost=found.note)
    batches.record(b"1")
    await batches.close()
    assert found.batches == [[b"1"]]
