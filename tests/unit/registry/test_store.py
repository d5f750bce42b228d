"""registry/store.py where others write at the same time, and where the store fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB
from kubevouch.admission.chain import AdmissionChain
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import DeleteOptions, ObjectMeta, Preconditions, replace_metadata
from kubevouch.registry import store as registry_store
from kubevouch.registry.core import configmaps
from kubevouch.registry.interface import Context
from kubevouch.registry.reader import SCAN_SLICE, parse_resource_version
from kubevouch.registry.store import GENERATE_NAME_ATTEMPTS, ResourceStore
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.storage.interface import StoreDamaged, StoreUnavailable
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.storage.watchcache.resource_cache import Scope
from kubevouch.testing.clock import FakeClock

Act = Callable[[], Awaitable[object]]


class InterruptedStore(MemoryStore):
    """A real store in front of whose next write something else happens, once."""

    before: Act | None = None

    async def _interrupt(self) -> None:
        act, self.before = self.before, None
        if act is not None:
            await act()

    async def update(self, *args: Any, **kwargs: Any) -> Any:
        await self._interrupt()
        return await super().update(*args, **kwargs)

    async def delete(self, *args: Any, **kwargs: Any) -> Any:
        await self._interrupt()
        return await super().delete(*args, **kwargs)

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        await self._interrupt()
        return await super().create(*args, **kwargs)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = InterruptedStore(clock=self.clock)
        self.cacher = Cacher(self.store, self.clock)
        self.maps: ResourceStore[ConfigMap] = ResourceStore(
            configmaps.DEFINITION, self.store, self.cacher, AdmissionChain(), self.clock, WriteBudget(self.clock)
        )

    def context(self, **parts: Any) -> Context:
        return Context(user=BOB, now=self.clock.now(), api_version="v1", field_manager="test", **parts)

    async def create(self, name: str = "a", **parts: Any) -> ConfigMap:
        obj = ConfigMap(metadata=ObjectMeta(name=name, namespace="n"), **parts)
        return (await self.maps.create(self.context(), "n", obj)).obj

    async def label(self, key: str, name: str = "a", **context: Any) -> ConfigMap:
        """Add a label to whatever is there."""

        async def transform(existing: ConfigMap | None) -> ConfigMap:
            assert existing is not None
            changed: ConfigMap = replace_metadata(existing, labels=existing.metadata.labels | {key: ""})
            return changed

        stored, created = await self.maps.update(self.context(**context), "n", name, transform)
        assert not created
        return stored.obj

    async def get(self, name: str = "a") -> ConfigMap:
        return (await self.maps.get("n", name)).obj

    async def delete(self, options: DeleteOptions | None = None) -> bool:
        return (await self.maps.delete(self.context(), "n", "a", options or DeleteOptions())).gone


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    await made.cacher.start()
    yield made
    await made.cacher.close()
    await made.store.close()


def failing(err: Exception) -> Act:
    async def act() -> None:
        raise err

    return act


@async_test
async def test_an_update_that_was_overtaken_starts_again_from_what_is_there() -> None:
    async with world() as w:
        await w.create()
        w.store.before = lambda: w.label("first")
        assert (await w.label("second")).metadata.labels == {"first": "", "second": ""}


@async_test
async def test_an_overtaken_update_of_a_known_version_is_a_conflict() -> None:
    async with world() as w:
        made = await w.create()

        async def transform(_existing: ConfigMap | None) -> ConfigMap:
            changed: ConfigMap = replace_metadata(made, labels={"mine": ""})
            return changed

        w.store.before = lambda: w.label("theirs")
        with pytest.raises(APIStatusError) as caught:
            await w.maps.update(w.context(), "n", "a", transform)
        assert (caught.value.code, str(caught.value)) == (
            409, f'Operation cannot be fulfilled on configmaps "a": {errors.STALE_OBJECT}'
        )  # fmt: skip
        assert (await w.get()).metadata.labels == {"theirs": ""}


@async_test
async def test_an_update_of_what_goes_meanwhile_is_404() -> None:
    async with world() as w:
        await w.create()
        w.store.before = w.delete
        with pytest.raises(APIStatusError) as caught:
            await w.label("late")
        assert caught.value.code == 404


@async_test
async def test_a_deletion_that_was_overtaken_looks_again() -> None:
    async with world() as w:
        made = await w.create()
        w.store.before = lambda: w.label("first")
        assert await w.delete()
        again = await w.create()
        w.store.before = lambda: w.label("first")
        exact = DeleteOptions(preconditions=Preconditions(resource_version=again.metadata.resource_version))
        with pytest.raises(APIStatusError) as caught:
            await w.delete(exact)
        assert caught.value.code == 409
        assert again.metadata.uid != made.metadata.uid


@async_test
async def test_of_two_deletions_one_finds_nothing() -> None:
    async with world() as w:
        await w.create()
        w.store.before = w.delete
        with pytest.raises(APIStatusError) as caught:
            await w.delete()
        assert caught.value.code == 404


@async_test
async def test_the_last_finalizer_takes_the_object_with_it() -> None:
    async with world() as w:
        meta = ObjectMeta(name="a", namespace="n", finalizers=["example.com/a"])
        await w.maps.create(w.context(), "n", ConfigMap(metadata=meta))
        assert not await w.delete()
        marked = (await w.get()).metadata
        assert marked.deletion_timestamp is not None
        assert not await w.delete()
        assert (await w.get()).metadata == marked

        async def transform(existing: ConfigMap | None) -> ConfigMap:
            changed: ConfigMap = replace_metadata(existing, finalizers=[])
            return changed

        w.store.before = lambda: w.label("meanwhile")
        stored, _ = await w.maps.update(w.context(), "n", "a", transform)
        assert stored.obj.metadata.labels == {"meanwhile": ""}
        with pytest.raises(APIStatusError):
            await w.get()


@pytest.mark.parametrize("taken", [GENERATE_NAME_ATTEMPTS - 1, GENERATE_NAME_ATTEMPTS])
@async_test
async def test_a_generated_name_is_tried_eight_times(taken: int) -> None:
    names = iter([*["taken"] * taken, "free", "unused"])
    async with world() as w:
        await w.create("taken")
        obj = ConfigMap(metadata=ObjectMeta(generate_name="x", namespace="n"))
        with pytest.MonkeyPatch.context() as patch:
            # Randomness is the one part of it that a test has to pin.
            patch.setattr(registry_store, "generate_name", lambda _prefix: next(names))
            if taken < GENERATE_NAME_ATTEMPTS:
                assert (await w.maps.create(w.context(), "n", obj)).obj.metadata.name == "free"
                return
            with pytest.raises(APIStatusError) as caught:
                await w.maps.create(w.context(), "n", obj)
        assert (caught.value.code, str(caught.value)) == (
            409,
            'configmaps "taken" already exists, the server was not able to generate a unique name for the object',
        )


@async_test
async def test_a_store_that_fails_is_a_500_and_the_next_write_works() -> None:
    async with world() as w:
        for failure, text in (
            (StoreUnavailable("/var/lib/x.db: disk full"), "the store cannot be written; the server's log says why"),
            (StoreDamaged("/var/lib/x.db: damaged"), "the store is damaged here; the server's log says where"),
        ):
            w.store.before = failing(failure)
            with pytest.raises(APIStatusError) as caught:
                await w.create()
            assert (caught.value.code, str(caught.value)) == (500, f"Internal error occurred: {text}")
        await w.create()
        w.store.before = failing(StoreUnavailable("disk full"))
        with pytest.raises(APIStatusError):
            await w.label("lost")
        assert (await w.get()).metadata.labels == {}


@async_test
async def test_an_object_too_large_for_the_store_is_413() -> None:
    async with world() as w:
        # Each part is within its own bound.
        finalizers = [f"example.com/{number:063}" for number in range(10_000)]
        meta = ObjectMeta(name="a", namespace="n", finalizers=finalizers)
        obj = ConfigMap(metadata=meta, data={"k": "x" * 1_000_000})
        with pytest.raises(APIStatusError) as caught:
            await w.maps.create(w.context(), "n", obj)
        assert (caught.value.code, str(caught.value)) == (
            413, "Request entity too large: etcdserver: request is too large"
        )  # fmt: skip
        assert (await w.maps.list_(Scope("/registry/configmaps/"))).items == []


@async_test
async def test_a_dry_run_writes_nothing_and_still_finds_a_name_taken() -> None:
    async with world() as w:
        made = await w.create()
        obj = ConfigMap(metadata=ObjectMeta(name="a", namespace="n"))
        with pytest.raises(APIStatusError) as caught:
            await w.maps.create(w.context(dry_run=True), "n", obj)
        assert caught.value.code == 409
        assert (await w.label("x", dry_run=True)).metadata.labels == {"x": ""}
        gone = await w.maps.delete(w.context(dry_run=True), "n", "a", DeleteOptions())
        assert gone.gone
        assert await w.get() == made


@async_test
async def test_a_version_of_the_future_is_waited_for_and_then_504() -> None:
    async with world() as w:
        made = await w.create()
        future = str(int(made.metadata.resource_version) + 5)
        reading = asyncio.create_task(w.maps.get("n", "a", future))
        await w.clock.until_asleep()
        await w.clock.run(3)
        with pytest.raises(APIStatusError) as caught:
            await reading
        assert (caught.value.code, str(caught.value)) == (
            504, f"Timeout: Too large resource version: {future}, current: {made.metadata.resource_version}"
        )  # fmt: skip


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("7", 7), ("007", 7), (str(2**64 - 1), 2**64 - 1)])
def test_resource_versions(text: str, number: int) -> None:
    assert parse_resource_version(text, errors.bad_request) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("+1", "invalid syntax"),
        ("1.0", "invalid syntax"),
        ("٣", "invalid syntax"),
        (str(2**64), "value out of range"),
        ("9" * 100, "value out of range"),
    ],
)
def test_what_is_no_resource_version(text: str, why: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        parse_resource_version(text, errors.bad_request)
    assert str(caught.value) == f'strconv.ParseUint: parsing "{text}": {why}'


LONG = 3 * SCAN_SLICE + 10


@asynccontextmanager
async def long_world() -> AsyncIterator[World]:
    """A world that begins with many objects."""
    made = World()
    for number in range(LONG):
        meta = ObjectMeta(name=f"{number:05}", namespace="n", uid=f"u-{number}")
        obj = ConfigMap(metadata=meta, data={"number": str(number)})
        await made.store.create(made.maps.definition.key("n", f"{number:05}"), made.maps._value(obj))
    await made.cacher.start()
    yield made
    await made.cacher.close()
    await made.store.close()


def _by_data(value: str) -> Scope[ConfigMap]:
    prefix = configmaps.DEFINITION.key_prefix
    return Scope(prefix, matches=lambda stored: stored.obj.data["number"].endswith(value), name=value)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("value", ["", "7"], ids=["all", "selected"])
@async_test
async def test_others_write_while_a_long_list_is_looked_through_and_it_shows_one_moment(
    value: str, exact: bool
) -> None:
    async with long_world() as w:
        version = str(w.cacher.revision)
        scope = _by_data(value) if value else Scope(configmaps.DEFINITION.key_prefix)
        expected = [f"{n:05}" for n in range(LONG) if str(n).endswith(value)]
        listing = asyncio.create_task(
            w.maps.list_(scope, resource_version=version if exact else "", match="Exact" if exact else "")
        )
        written = 0
        while not listing.done():
            # The last ones, which the list comes to last.
            await w.maps.delete(w.context(), "n", f"{LONG - 1 - written:05}", DeleteOptions())
            written += 1
        assert written >= 3
        page = await listing
        names = [stored.obj.metadata.name for stored in page.items]
        assert names == expected[: len(names)]
        assert len(expected) - len(names) <= written
        gone_before = sum(1 for n in range(LONG - (int(page.revision) - int(version)), LONG) if f"{n:05}" in expected)
        assert len(names) == len(expected) - gone_before


@async_test
async def test_a_watch_that_begins_with_a_long_list_misses_nothing_of_the_meantime() -> None:
    async with long_world() as w:
        opening = asyncio.create_task(w.maps.watch(_by_data(""), "0"))
        written = 0
        while not opening.done():
            await w.label("l", f"{written:05}")
            written += 1
        assert written >= 3
        watcher, initial, revision = await opening
        assert len(initial) == LONG
        assert max(stored.revision for stored in initial) <= revision
        changed = {stored.obj.metadata.name for stored in initial if stored.obj.metadata.labels}
        told = [change.stored.obj.metadata.name for change in await watcher.next_batch()]
        assert len(changed) + len(told) == written
        assert changed | set(told) == {f"{number:05}" for number in range(written)}
        watcher.close()
