"""The buffer between requests and a slow backend."""

import asyncio

import pytest

from asynctest import async_test
from kubevouch.server.audit import batch
from kubevouch.server.audit.batch import Batches, DeliveryError
from kubevouch.server.audit.options import BatchOptions, Mode
from kubevouch.testing.clock import FakeClock


class Collector:
    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.lost = self.dropped = 0
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

    def note_dropped(self, count: int) -> None:
        self.dropped += count

    def batches_of(
        self, clock: FakeClock, options: BatchOptions, mode: Mode = Mode.BATCH, most: int = 0, most_bytes: int = 0
    ) -> Batches:
        return Batches(
            self.deliver,
            clock,
            options,
            mode=mode,
            most=most or options.max_size,
            most_bytes=most_bytes or None,
            on_dropped=self.note_dropped,
            on_lost=self.note,
        )


def unthrottled(size: int, wait: float = 0.0, buffer: int = 10_000) -> BatchOptions:
    return BatchOptions(buffer, size, wait, throttle_enable=False)


@async_test
async def test_a_full_batch_goes_at_once_and_the_rest_after_the_wait() -> None:
    clock, found = FakeClock(), Collector()
    batches = found.batches_of(clock, unthrottled(2, 30))
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
    batches = found.batches_of(FakeClock(), unthrottled(1, buffer=2))
    batches.record(b"1")
    await asyncio.sleep(0)  # now it is under way
    for event in (b"2", b"3", b"4", b"5"):
        batches.record(event)
    assert (found.dropped, found.lost) == (2, 0)
    found.gate.set()
    await batches.close()
    assert found.batches == [[b"1"], [b"2"], [b"3"]]


@async_test
async def test_few_large_events_are_too_many_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose requests are recorded with their bodies chooses how large events are."""
    monkeypatch.setattr(batch, "MAX_WAITING_BYTES", 10)
    found = Collector()
    found.gate.clear()
    batches = found.batches_of(FakeClock(), unthrottled(1))
    batches.record(b"1")
    await asyncio.sleep(0)  # now it is under way
    for event in (b"four", b"eleven", b"eleven", b"four"):
        batches.record(event)
    assert found.dropped == 2
    found.gate.set()
    await batches.close()
    batches.record(b"ten bytes.")
    await batches.close()
    assert found.batches == [[b"1"], [b"four"], [b"eleven"], [b"ten bytes."]]


@async_test
async def test_a_failed_delivery_is_counted_and_the_next_goes_on() -> None:
    found = Collector()
    batches = found.batches_of(FakeClock(), unthrottled(1))
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
    batches = found.batches_of(FakeClock(), unthrottled(10, 30))
    batches.record(b"1")
    await batches.close()
    assert found.batches == [[b"1"]]


@async_test
async def test_throttled_batches_keep_their_distance() -> None:
    clock, found = FakeClock(), Collector()
    options = BatchOptions(10, 1, 0.0, throttle_enable=True, throttle_qps=0.5, throttle_burst=1)
    batches = found.batches_of(clock, options)
    for event in (b"1", b"2"):
        batches.record(event)
    await clock.until_asleep()
    assert found.batches == [[b"1"]]
    clock.advance(2)
    for _ in range(3):
        await asyncio.sleep(0)
    assert found.batches == [[b"1"], [b"2"]]


@async_test
async def test_who_waits_shares_the_next_delivery_and_nothing_is_dropped() -> None:
    found = Collector()
    found.gate.clear()
    batches = found.batches_of(FakeClock(), unthrottled(1, wait=30, buffer=1), Mode.BLOCKING, most=100)
    first = batches.record(b"1")
    await asyncio.sleep(0)
    waiting = [batches.record(event) for event in (b"2", b"3", b"4")]
    assert first is not None
    assert not first.done()
    found.gate.set()
    assert await asyncio.gather(first, *(each for each in waiting if each is not None)) == [True] * 4
    assert found.batches == [[b"1"], [b"2", b"3", b"4"]]
    assert found.dropped == 0


@pytest.mark.parametrize(("mode", "goes_on"), [(Mode.BLOCKING, True), (Mode.BLOCKING_STRICT, False)])
def test_only_blocking_strict_tells_of_a_failure(mode: Mode, goes_on: bool) -> None:
    async def run() -> None:
        found = Collector()
        found.failure = OSError("no space left on device")
        kept = found.batches_of(FakeClock(), unthrottled(1), mode).record(b"1")
        assert kept is not None
        assert await kept is goes_on
        assert found.lost == 1

    asyncio.run(run())


@async_test
async def test_who_has_gone_away_does_not_stop_the_others() -> None:
    found = Collector()
    found.gate.clear()
    batches = found.batches_of(FakeClock(), unthrottled(1), Mode.BLOCKING_STRICT)
    first, second = batches.record(b"1"), batches.record(b"2")
    assert first is not None and second is not None
    await asyncio.sleep(0)
    first.cancel()
    found.gate.set()
    assert await second
    assert found.batches == [[b"1"], [b"2"]]


@async_test
async def test_a_batch_is_split_by_its_bytes() -> None:
    found = Collector()
    batches = found.batches_of(FakeClock(), unthrottled(10, 30), most_bytes=4)
    for event in (b"12345", b"1", b"22", b"3", b"4"):
        batches.record(event)
    await batches.close()
    assert found.batches == [[b"12345"], [b"1", b"22", b"3"], [b"4"]]
