"""util/turns.py: slices, and what others get to do between them."""

import asyncio
from collections.abc import Iterator

import pytest

from asynctest import async_test
from kubevouch.util.turns import SLICE_SECONDS, Pace, take


class Others:
    """Somebody else on the loop, who counts his turns."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


@async_test
async def test_others_have_a_turn_after_each_slice() -> None:
    others = Others()
    assert await take(iter(range(1000)), 100) == list(range(1000))
    assert others.turns >= 9
    await others.stop()


@async_test
async def test_what_is_left_out_counts_as_work() -> None:
    others = Others()
    assert await take(iter(range(1000)), 100, keep=lambda number: number == 999, most=1) == [999]
    assert others.turns >= 9
    await others.stop()


@async_test
async def test_a_short_one_is_taken_at_once() -> None:
    others = Others()
    assert await take(iter(range(99)), 100) == list(range(99))
    assert await take(iter(range(1000)), 100, most=100) == list(range(100))
    assert others.turns == 0
    await others.stop()


@pytest.mark.parametrize("most", [0, 1, 99, 100, 101, 250, 999, 1000, 1001])
@async_test
async def test_no_more_than_asked_for(most: int) -> None:
    assert await take(iter(range(1000)), 100, most=most) == list(range(1000))[:most]
    even = await take(iter(range(1000)), 100, keep=lambda number: number % 2 == 0, most=most)
    assert even == list(range(0, 1000, 2))[:most]


@async_test
async def test_nothing_is_looked_at_beyond_the_slice_that_has_enough() -> None:
    looked = 0

    def found() -> Iterator[int]:
        nonlocal looked
        while True:
            looked += 1
            yield looked

    assert await take(found(), 10, most=25) == list(range(1, 26))
    assert looked == 25


@async_test
async def test_all_who_keep_pace_share_one_slice_of_a_turn() -> None:
    done = [0, 0, 0]
    in_a_slice = 4
    pace = Pace(lambda: sum(done) * SLICE_SECONDS / in_a_slice)

    async def work(who: int) -> None:
        for _ in range(20):
            await pace.keep()
            done[who] += 1

    working = asyncio.gather(*(work(who) for who in range(len(done))))
    before = list(done)
    while not working.done():
        await asyncio.sleep(0)
        steps = [now - earlier for now, earlier in zip(done, before, strict=True)]
        assert sum(steps) <= in_a_slice + len(done)
        # Nobody who has work is kept waiting by the others for more than a turn.
        assert all(step or now in (0, 20) or sum(steps) == 0 for step, now in zip(steps, done, strict=True))
        before = list(done)
    await working
    assert done == [20, 20, 20]
