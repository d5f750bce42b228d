"""util/turns.py: slices, and what others get to do between them."""

import asyncio
from collections.abc import Iterator

import pytest

from asynctest import async_test
from kubevouch.util.turns import take


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
