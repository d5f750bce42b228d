"""What the API of a cloud has answered: kept, shared and counted."""

from __future__ import annotations

import asyncio

import pytest

from asynctest import async_test
from kubevouch.attestation.api_answers import KEPT_SECONDS, MISSING_SECONDS, APIAnswers
from kubevouch.attestation.interface import UnavailableError
from kubevouch.testing.clock import FakeClock


class Cloud:
    """Says how often it was asked, or nothing."""

    def __init__(self) -> None:
        self.asked = 0
        self.has = True

    async def ask(self) -> int | None:
        self.asked += 1
        await asyncio.sleep(0)
        return self.asked if self.has else None


@async_test
async def test_an_answer_is_shared_and_kept_for_a_minute() -> None:
    clock, cloud = FakeClock(), Cloud()
    answers: APIAnswers[str, int] = APIAnswers(clock)

    assert await asyncio.gather(*(answers.get("a", cloud.ask) for _ in range(8))) == [1] * 8
    clock.advance(KEPT_SECONDS - 1)
    assert await answers.get("a", cloud.ask) == 1
    assert await answers.get("a", cloud.ask, fresh=True) == 2
    assert await answers.get("b", cloud.ask) == 3
    clock.advance(KEPT_SECONDS)
    assert await answers.get("a", cloud.ask) == 4


@async_test
async def test_what_is_not_there_may_be_made_in_a_moment() -> None:
    clock, cloud = FakeClock(), Cloud()
    answers: APIAnswers[str, int] = APIAnswers(clock)
    cloud.has = False

    assert await answers.get("a", cloud.ask) is None
    cloud.has = True
    assert await answers.get("a", cloud.ask) is None
    clock.advance(MISSING_SECONDS)
    assert await answers.get("a", cloud.ask) == 2


@async_test
async def test_a_flood_uses_up_no_more_than_its_calls() -> None:
    clock, cloud = FakeClock(), Cloud()
    answers: APIAnswers[int, int] = APIAnswers(clock, calls_per_minute=3)
    for number in range(3):
        await answers.get(number, cloud.ask)
        clock.advance(10)

    with pytest.raises(UnavailableError) as caught:
        await answers.get(3, cloud.ask)
    assert caught.value.retry_after == 30
    assert await answers.get(0, cloud.ask) == 1
    clock.advance(30)
    assert await answers.get(3, cloud.ask) == 4
    assert cloud.asked == 4
