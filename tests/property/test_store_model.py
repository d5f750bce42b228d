"""The memory store and the SQLite store do what a plain model does, whatever they are asked.

The model keeps every state there ever was. Operations aim at few keys, so that they meet.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import hypothesis.strategies as st
import uvloop
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kubevouch.storage.interface import (
    Compacted,
    EventBatch,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    Revision,
    RevisionConflict,
    Store,
    StoreError,
    StoreEvent,
)
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import soon

KEYS = ["/a", "/a/", "/a/1", "/a/2", "/a0", "/b/1", "/é", "/😀"]
PREFIXES = ["", "/", "/a", "/a/", "/a/1", "/b/", "/c", "/é"]
STARTS = ["", "/a/1", "/a/1\x00", "/a0", "/z"]

keys = st.sampled_from(KEYS)
values = st.sampled_from([b"", b"v", b"\x00\xff", b"long " * 500])
prefixes = st.sampled_from(PREFIXES)
back = st.integers(-1, 12)
times = st.one_of(st.none(), st.integers(1, 20))


@dataclass
class Model:
    """What a store is, without any thought for speed."""

    states: dict[int, dict[str, KeyValue]] = field(default_factory=lambda: {1: {}})
    events: list[StoreEvent] = field(default_factory=list)
    due: dict[str, int] = field(default_factory=dict)
    now: int = 0
    revision: int = 1
    oldest: int = 1

    @property
    def current(self) -> dict[str, KeyValue]:
        return self.states[self.revision]

    def create(self, key: str, value: bytes, ttl: int | None) -> Revision:
        if key in self.current:
            raise KeyExists(key)
        return self.put(key, value, ttl)

    def update(self, key: str, value: bytes, expected: Revision, ttl: int | None) -> Revision:
        self.expect(key, expected)
        return self.put(key, value, ttl)

    def delete(self, key: str, expected: Revision) -> Revision:
        self.expect(key, expected)
        return self.put(key, None, None)

    def expect(self, key: str, expected: Revision) -> None:
        held = self.current.get(key)
        if held is None or held.revision != expected:
            raise RevisionConflict(key, held)

    def put(self, key: str, value: bytes | None, ttl: int | None) -> Revision:
        state = self.current.copy()
        self.revision += 1
        revision = Revision(self.revision)
        previous = state.pop(key, None)
        self.due.pop(key, None)
        if value is not None:
            state[key] = KeyValue(key, value, revision)
            if ttl is not None:
                self.due[key] = self.now + ttl
        self.states[revision] = state
        self.events.append(StoreEvent(key, revision, value, previous))
        return revision

    def advance(self, seconds: int) -> None:
        self.now += seconds
        for _, key in sorted((due, key) for key, due in self.due.items() if due <= self.now):
            self.put(key, None, None)

    def list(self, prefix: str, start: str, limit: int, revision: int | None) -> Page:
        at = self.revision if revision is None else revision
        if at > self.revision:
            raise FutureRevision(Revision(at), Revision(self.revision))
        if at < self.oldest:
            raise Compacted(Revision(at), Revision(self.oldest))
        found = [self.states[at][key] for key in sorted(self.states[at], key=str.encode)]
        found = [item for item in found if item.key.startswith(prefix) and item.key.encode() >= start.encode()]
        shown = found[:limit] if limit else found
        return Page(shown, Revision(at), len(shown) < len(found), len(found))

    def compact(self, revision: int) -> None:
        if revision > self.revision:
            raise FutureRevision(Revision(revision), Revision(self.revision))
        self.oldest = max(self.oldest, revision)


def described(error: StoreError) -> tuple[object, ...]:
    """An error, comparable."""
    return (type(error), str(error), getattr(error, "current", None))


class StoreMachine(RuleBasedStateMachine):
    """Does the same to the model and to the store, and compares."""

    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=self.new_loop)
        self.model = Model()
        self.clock = FakeClock()
        self.watches: list[tuple[str, int, AsyncGenerator[EventBatch, None], list[StoreEvent]]] = []

    async def open(self) -> Store:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.store = self.runner.run(self.open())

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                try:
                    self.read_watches()
                finally:
                    self.runner.run(self.finish())
        finally:
            self.runner.close()

    async def finish(self) -> None:
        for _, _, batches, _ in self.watches:
            await batches.aclose()
        await self.store.close()

    def same(self, expected: Callable[[], object], call: Awaitable[object]) -> None:
        wanted: object
        try:
            wanted = expected()
        except StoreError as error:
            wanted = described(error)
        assert self.runner.run(outcome(call)) == wanted

    def recent(self, key: str, back: int) -> Revision:
        """The key's revision, or one somewhat before or after it."""
        held = self.model.current.get(key)
        return Revision((held.revision if held else self.model.revision) - (0 if back > 3 else back))

    @rule(key=keys, value=values, ttl=times)
    def create(self, key: str, value: bytes, ttl: int | None) -> None:
        self.same(lambda: self.model.create(key, value, ttl), self.store.create(key, value, ttl=ttl))

    @rule(key=keys, value=values, back=back, ttl=times)
    def update(self, key: str, value: bytes, back: int, ttl: int | None) -> None:
        expected = self.recent(key, back)
        self.same(
            lambda: self.model.update(key, value, expected, ttl), self.store.update(key, value, expected, ttl=ttl)
        )

    @rule(key=keys, back=back)
    def delete(self, key: str, back: int) -> None:
        expected = self.recent(key, back)
        self.same(lambda: self.model.delete(key, expected), self.store.delete(key, expected))

    @rule(writes=st.lists(st.tuples(keys, values, back), min_size=2, max_size=12))
    def write_together(self, writes: list[tuple[str, bytes, int]]) -> None:
        """Accepted in one turn of the loop: they share a commit, and happen in the order they were asked for."""
        before = [(key, value, turn, self.recent(key, 0)) for key, value, turn in writes]

        async def together() -> list[object]:
            calls: list[Awaitable[object]] = []
            for key, value, turn, expected in before:
                if turn < 4:
                    calls.append(outcome(self.store.create(key, value)))
                elif turn < 9:
                    calls.append(outcome(self.store.update(key, value, expected)))
                else:
                    calls.append(outcome(self.store.delete(key, expected)))
            return await asyncio.gather(*calls)

        wanted: list[object] = []
        for key, value, turn, expected in before:
            try:
                if turn < 4:
                    wanted.append(self.model.create(key, value, None))
                elif turn < 9:
                    wanted.append(self.model.update(key, value, expected, None))
                else:
                    wanted.append(self.model.delete(key, expected))
            except StoreError as error:
                wanted.append(described(error))
        assert self.runner.run(together()) == wanted

    @rule(key=keys)
    def get(self, key: str) -> None:
        self.same(lambda: self.model.current.get(key), self.store.get(key))

    @rule(prefix=prefixes, start=st.sampled_from(STARTS), limit=st.integers(0, 5), back=st.none() | back)
    def list(self, prefix: str, start: str, limit: int, back: int | None) -> None:
        revision = None if back is None else Revision(self.model.revision - back)
        self.same(
            lambda: self.model.list(prefix, start, limit, revision),
            self.store.list(prefix, start=start, limit=limit, revision=revision),
        )

    @rule(back=back)
    def compact(self, back: int) -> None:
        revision = Revision(self.model.revision - back)
        self.same(lambda: self.model.compact(revision), self.store.compact(revision))

    @rule(prefix=prefixes, back=st.integers(0, 12))
    def watch(self, prefix: str, back: int) -> None:
        after = Revision(self.model.revision - back)
        batches = cast("AsyncGenerator[EventBatch, None]", self.store.watch(prefix, after))
        if max(after, 1) < self.model.oldest:
            self.same(
                lambda: described(Compacted(Revision(max(after, 1)), Revision(self.model.oldest))), anext(batches)
            )
        else:
            self.watches.append((prefix, after, batches, []))
            self.read_watches()

    @rule()
    def read_watches(self) -> None:
        self.runner.run(self.compare_watches())

    async def compare_watches(self) -> None:
        for watch in self.watches.copy():
            prefix, after, batches, seen = watch
            expected = [event for event in self.model.events if event.key.startswith(prefix) and event.revision > after]
            try:
                while len(seen) < len(expected):
                    seen += await soon(anext(batches))
            except Compacted:
                # Allowed only to a watch that has not read all up to what was forgotten; what it did read was right.
                assert max([after, 1, *(event.revision for event in seen)]) < self.model.oldest
                assert seen == expected[: len(seen)]
                self.watches.remove(watch)
                continue
            assert seen == expected

    @rule(seconds=st.integers(1, 15))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.model.advance(seconds)
        self.runner.run(soon(self.expired()))

    async def expired(self) -> None:
        """Waits for the store's own deletions."""
        while await self.store.revision() < self.model.revision:  # noqa: ASYNC110 - the store has no sign to give
            await asyncio.sleep(0)

    @invariant()
    def same_revision(self) -> None:
        if hasattr(self, "store"):
            assert self.runner.run(outcome(self.store.revision())) == self.model.revision


async def outcome(call: Awaitable[object]) -> object:
    try:
        return await call
    except StoreError as error:
        return described(error)


class MemoryMachine(StoreMachine):
    async def open(self) -> Store:
        return MemoryStore(clock=self.clock)

    @rule()
    def start_from_a_snapshot(self) -> None:
        """A copy goes on where the original was; it has no watches."""
        assert isinstance(self.store, MemoryStore)
        self.read_watches()
        snapshot = self.store.snapshot()
        self.runner.run(self.finish())
        self.watches.clear()
        self.store = MemoryStore(clock=self.clock, snapshot=snapshot)


class SQLiteMachine(StoreMachine):
    new_loop = staticmethod(uvloop.new_event_loop)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kubevouch-model-"))

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)

    async def open(self) -> Store:
        return await SQLiteStore.open(self.folder / "store.db", clock=self.clock)

    @rule()
    def open_again(self) -> None:
        self.read_watches()
        self.runner.run(self.finish())
        self.watches.clear()
        self.store = self.runner.run(self.open())


TestMemoryStoreIsTheModel = MemoryMachine.TestCase
TestMemoryStoreIsTheModel.settings = settings(max_examples=150, stateful_step_count=40, derandomize=True)
TestSQLiteStoreIsTheModel = SQLiteMachine.TestCase
TestSQLiteStoreIsTheModel.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True)
