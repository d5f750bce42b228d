"""What the parts of the suite share: an open store for each test, watches, and patience."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import pytest

from kubevouch.storage.interface import (
    EventBatch,
    Page,
    Revision,
    Store,
    StoreError,
    StoreEvent,
)
from kubevouch.testing.clock import FakeClock

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long to wait for what has to come. Never for what must not: tests write something later and wait for that."""


class Suite:
    """What the parts of the suite share."""

    events_precede_writes: ClassVar[bool] = True
    """A running watch has the event before the write returns. Not so where events come over a network."""

    writes_keep_their_order: ClassVar[bool] = True
    """Writes that are asked for one after the other happen in that order, though nobody waits in between."""

    def opened(self) -> AbstractAsyncContextManager[Store]:
        """An empty store, closed at the end; it takes its time from ``self.clock``."""
        raise NotImplementedError

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Runs a test; for subclasses that want another loop."""
        asyncio.run(scenario)

    async def elapse(self, seconds: float) -> None:
        """Lets time pass for the store; for subclasses whose store has a clock of its own."""
        self.clock.advance(seconds)

    @pytest.fixture(autouse=True)
    def _surroundings(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.clock = FakeClock()


S = TypeVar("S", bound=Suite)


def store_test(scenario: Callable[[S, Store], Coroutine[Any, Any, None]]) -> Callable[[S], None]:
    """Makes a test of a coroutine that takes an open store."""

    async def with_store(suite: S) -> None:
        async with suite.opened() as store:
            await scenario(suite, store)

    def test(self: S) -> None:
        self.run(with_store(self))

    # Not functools.wraps: pytest would look through it and take ``store`` for a fixture.
    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


class Watch:
    """A running watch, and what it has delivered."""

    def __init__(self, batches: AsyncIterator[EventBatch]) -> None:
        self.batches = batches
        self.events: list[StoreEvent] = []

    async def until(self, revision: Revision) -> list[StoreEvent]:
        """Reads until a write at or above ``revision`` was seen; returns everything since the watch began."""
        while not self.events or self.events[-1].revision < revision:
            await self._read()
        return self.events

    async def until_written(self, number: int) -> list[StoreEvent]:
        """Reads until ``number`` events were seen; returns everything since the watch began."""
        while len(self.events) < number:
            await self._read()
        return self.events

    async def _read(self) -> None:
        batch = await soon(anext(self.batches))
        assert batch
        self.events += (event for event in batch if not event.is_progress)


def watching(
    store: Store, prefix: str, after: Revision
) -> AbstractAsyncContextManager[AsyncGenerator[EventBatch, None]]:
    """A watch that is closed at the end."""
    return aclosing(cast("AsyncGenerator[EventBatch, None]", store.watch(prefix, after)))


def soon(awaitable: Awaitable[T]) -> Coroutine[Any, Any, T]:
    return asyncio.wait_for(awaitable, PATIENCE_SECONDS)


def keys(page: Page) -> list[str]:
    return [item.key for item in page.items]


async def filled(store: Store, *names: str) -> Revision:
    """Creates keys, each with its own name as value; returns the revision of the last."""
    revision = await store.revision()
    for name in names:
        revision = await store.create(name, name.encode())
    return revision


async def settled(*calls: Coroutine[Any, Any, T]) -> list[T | StoreError]:
    """What each call returned, or the store's error it raised."""
    outcomes: list[T | StoreError] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, StoreError):
            raise outcome
        outcomes.append(outcome)
    return outcomes
