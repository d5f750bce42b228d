"""storage/copying: what is there afterwards, at which revisions, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import aio
from kubevouch.phases import store_copy
from kubevouch.storage.copying import mark as marks
from kubevouch.storage.copying.copy import Copied, Progress, copy
from kubevouch.storage.copying.errors import CopyError, NotFree, Unfinished
from kubevouch.storage.copying.mark import MARK_KEY
from kubevouch.storage.interface import Compacted, KeyValue, Revision, Store, StoreError, StoreUnavailable
from kubevouch.storage.snapshot import Batch, Origin, Record, Snapshot
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.storage.sqlite.snapshot import open_snapshot
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import watching
from kubevouch.util.clock import Clock

CLOCK = FakeClock()


class Written:
    """A source with records of a test's own."""

    def __init__(self, *records: Record, revision: int = 50, store: str = "test:1", prefix: str = "/registry") -> None:
        self.records = [*records]
        self.revision = Revision(revision)
        self.origin = Origin(store, prefix)
        self.read = 0
        self.compactions = 0

    @asynccontextmanager
    async def snapshot(self, clock: Clock) -> AsyncIterator[Snapshot]:
        yield self

    async def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
        self.read += not prefix
        if self.compactions:
            self.compactions -= 1
            raise Compacted(self.revision, Revision(self.revision + 1))
        for record in self.records:
            if record.key.startswith(prefix):
                yield [record]


def record(key: str, value: bytes = b"value", revision: int = 7, expires: int | None = None) -> Record:
    return Record(f"/registry/{key}", value, Revision(revision), expires)


def run_copy(source: Written | SQLitePlace, path: Path, *, replace: bool = False, above: int | None = None) -> Copied:
    return aio.run(
        copy(
            source, SQLitePlace(path), CLOCK, lambda _: None,
            replace=replace, above=None if above is None else Revision(above),
        )
    )  # fmt: skip


async def contents(path: Path) -> dict[str, KeyValue]:
    store = await SQLiteStore.open(path, clock=CLOCK)
    try:
        page = await store.list("")
        return {each.key: each for each in page.items if each.key != MARK_KEY}
    finally:
        await store.close()


def values(path: Path) -> dict[str, bytes]:
    return {key.removeprefix("/registry/"): each.value for key, each in aio.run(contents(path)).items()}


def test_every_key_is_there_above_every_revision_of_the_source(tmp_path: Path) -> None:
    source = Written(record("a", b""), record("b", b"\x00\xff"), record("ü/ 1"), revision=1000)
    copied = run_copy(source, tmp_path / "to.db")
    assert (copied.keys, copied.created, copied.bytes) == (3, 3, 7)
    found = aio.run(contents(tmp_path / "to.db"))
    assert [each.value for each in found.values()] == [b"", b"\x00\xff", b"value"]
    assert all(each.revision > 1000 for each in found.values())
    assert source.read == 2, "written, then compared"


def test_who_watched_the_source_is_told_to_list_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        source = Written(record("a"), revision=1000)
        for revision in (1000, 1010):  # a source that went on
            source.revision = Revision(revision)
            await copy(source, SQLitePlace(tmp_path / "to.db"), CLOCK, lambda _: None)
            store = await SQLiteStore.open(tmp_path / "to.db", clock=CLOCK)
            with pytest.raises(Compacted):
                async with watching(store, "/registry/", after=source.revision) as watch:
                    await anext(watch)
            await store.close()

    aio.run(scenario())


def test_a_second_run_copies_what_has_changed_since(tmp_path: Path) -> None:
    source = Written(record("a"), record("b"), record("c"))
    run_copy(source, tmp_path / "to.db")
    source.records = [record("a"), record("b", b"other"), record("d")]
    copied = run_copy(source, tmp_path / "to.db")
    assert (copied.created, copied.updated, copied.deleted) == (1, 1, 1)
    assert values(tmp_path / "to.db") == {"a": b"value", "b": b"other", "d": b"value"}


def test_a_run_that_ended_early_is_gone_on_with(tmp_path: Path) -> None:
    class Failing(Written):
        async def batches(self, prefix: str = "") -> AsyncGenerator[Batch, None]:
            if prefix:
                return
            yield [record(f"a{number:03}") for number in range(300)]
            raise StoreUnavailable("gone")

    path = tmp_path / "to.db"
    with pytest.raises(StoreUnavailable):
        run_copy(Failing(), path)
    assert 0 < len(values(path)) <= 300
    store_error = aio.run(opened_to_serve(path))
    assert isinstance(store_error, Unfinished) and "goes on where it ended" in store_error.hint
    run_copy(Written(record("b")), path)
    assert values(path) == {"b": b"value"}
    assert aio.run(opened_to_serve(path)) is None


class Failing:
    """A destination that loses its leader at the end of a pass, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        self.place = SQLitePlace(path)
        self.left = times
        self.make = self.place.make
        self.snapshot = self.place.snapshot
        self.present = self.place.present
        self.go_on_above = self.place.go_on_above

    async def open(self, clock: Clock) -> Store:
        store = await self.place.open(clock)
        if self.left:
            self.left -= 1
            setattr(store, "compact", self._compact)  # noqa: B010 - one store only
        return store

    async def _compact(self, _: Revision) -> None:
        raise StoreUnavailable("no leader")


def test_a_store_that_fails_is_gone_on_with_while_that_gets_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Failing(tmp_path / "to.db", times=1)
        copied = await copy(Written(record("a"), record("b")), place, CLOCK, lambda _: None)
        assert (copied.created, copied.keys, place.left) == (2, 2, 0)
        place.left = 3
        with pytest.raises(StoreUnavailable):
            await copy(Written(record("a"), record("c")), place, CLOCK, lambda _: None)
        assert place.left == 1, "the second attempt found nothing to write"

    aio.run(scenario())


def test_half_a_store_is_copied_nowhere(tmp_path: Path) -> None:
    run_copy(Written(record("a")), tmp_path / "half.db")

    async def unfinish() -> None:
        store = await SQLiteStore.open(tmp_path / "half.db", clock=CLOCK)
        found = await store.get(MARK_KEY)
        assert found is not None
        await store.update(MARK_KEY, found.value.replace(b"true", b"false"), found.revision)
        await store.close()

    aio.run(unfinish())
    with pytest.raises(Unfinished):
        run_copy(SQLitePlace(tmp_path / "half.db"), tmp_path / "to.db")
    assert not (tmp_path / "to.db").exists()
    with pytest.raises(Unfinished):
        aio.run(store_copy.backup(SQLitePlace(tmp_path / "half.db"), tmp_path / "b", CLOCK, lambda _: None))


async def opened_to_serve(path: Path) -> StoreError | None:
    store = await SQLiteStore.open(path, clock=CLOCK)
    try:
        await marks.expect_finished(store, str(path))
    except Unfinished as error:
        return error
    finally:
        await store.close()
    return None


def test_what_somebody_else_has_put_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "to.db"

    async def fill() -> None:
        store = await SQLiteStore.open(path, clock=CLOCK)
        await store.create("/registry/mine", b"mine")
        await store.close()

    aio.run(fill())
    with pytest.raises(NotFree, match="1 keys"):
        run_copy(Written(record("a")), path)
    assert values(path) == {"mine": b"mine"}
    run_copy(Written(record("a")), path, replace=True)
    assert values(path) == {"a": b"value"}


def test_a_copy_that_was_used_since_or_is_of_another_store_is_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "to.db"
    run_copy(Written(record("a")), path)
    with pytest.raises(NotFree, match="of another store"):
        run_copy(Written(record("b"), store="test:2"), path)

    async def use() -> None:
        store = await SQLiteStore.open(path, clock=CLOCK)
        await store.create("/registry/joined", b"since")
        await store.close()

    aio.run(use())
    with pytest.raises(NotFree, match="written to since"):
        run_copy(Written(record("a")), path)
    assert values(path) == {"a": b"value", "joined": b"since"}


def test_a_store_is_not_copied_onto_itself(tmp_path: Path) -> None:
    run_copy(Written(record("a")), tmp_path / "to.db")
    with pytest.raises(CopyError, match="the source itself"):
        run_copy(SQLitePlace(tmp_path / "to.db"), tmp_path / "to.db", replace=True)


def test_times_to_live_go_on(tmp_path: Path) -> None:
    clock = FakeClock()

    async def scenario() -> None:
        store = await SQLiteStore.open(tmp_path / "from.db", clock=clock)
        await store.create("/registry/events/a", b"1", ttl=3600)
        await store.create("/registry/events/over", b"2", ttl=60)
        await store.close()
        clock.advance(600)
        copied = await copy(SQLitePlace(tmp_path / "from.db"), SQLitePlace(tmp_path / "to.db"), clock, lambda _: None)
        assert copied.keys == 1, "what is over is no part of it"
        async with open_snapshot(tmp_path / "to.db") as found:
            left = {each.key: each.expires async for batch in found.batches("/registry/events/") for each in batch}
        async with open_snapshot(tmp_path / "from.db") as wanted:
            due = {each.key: each.expires async for batch in wanted.batches() for each in batch}
        assert left == {"/registry/events/a": due["/registry/events/a"]}

    aio.run(scenario())


def test_a_server_goes_on_with_the_source(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SQLiteStore.open(tmp_path / "from.db", clock=CLOCK)
        await store.create("/registry/a", b"1")

        def told(progress: Progress) -> None:
            if progress.step == "copy":
                writes.append(asyncio.ensure_future(store.create("/registry/b", b"2")))

        writes: list[asyncio.Future[Revision]] = []
        copied = await copy(SQLitePlace(tmp_path / "from.db"), SQLitePlace(tmp_path / "to.db"), CLOCK, told)
        assert (await writes[0], copied.source_revision, copied.source_in_use) == (3, 2, True)
        assert list(await contents(tmp_path / "to.db")) == ["/registry/a"]
        again = await copy(SQLitePlace(tmp_path / "from.db"), SQLitePlace(tmp_path / "to.db"), CLOCK, lambda _: None)
        assert (again.created, again.source_revision) == (1, 3)
        await store.close()

    aio.run(scenario())


def test_a_source_that_forgets_its_revision_is_read_at_a_newer_one(tmp_path: Path) -> None:
    source = Written(record("a"))
    source.compactions = 2
    run_copy(source, tmp_path / "to.db")
    assert values(tmp_path / "to.db") == {"a": b"value"}
    source.compactions = 3
    with pytest.raises(Compacted):
        run_copy(source, tmp_path / "to.db")


def test_a_value_bound_to_its_key_is_not_moved_below_another_prefix(tmp_path: Path) -> None:
    for bound in (b"k8s:enc:aesgcm:v1:key1:\x00", b"k8s:enc:kms:v2:plugin:\x00"):
        with pytest.raises(CopyError, match="encrypted for keys below /other"):
            run_copy(Written(record("secrets/a", bound), prefix="/other"), tmp_path / "to.db")
    run_copy(Written(record("secrets/a", b"k8s:enc:aescbc:v1:key1:\x00"), prefix="/other"), tmp_path / "to.db")
    run_copy(Written(record("secrets/a", bound)), tmp_path / "to.db")


def test_a_copy_of_a_copy_has_a_mark_of_its_own(tmp_path: Path) -> None:
    run_copy(Written(record("a")), tmp_path / "1.db")
    run_copy(SQLitePlace(tmp_path / "1.db"), tmp_path / "2.db")
    run_copy(SQLitePlace(tmp_path / "1.db"), tmp_path / "2.db")
    assert values(tmp_path / "2.db") == {"a": b"value"}


def test_a_revision_that_the_source_does_not_know_of_is_passed(tmp_path: Path) -> None:
    copied = run_copy(Written(record("a")), tmp_path / "to.db", above=1 << 50)
    assert copied.revision > 1 << 50
