"""Watches: where they start, what they tell, when they end; on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client, EventType, WatchEvent, WatchOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.server.handlers import watch
from kubevouch.testing import Cluster

Told = tuple[str, str]


class World:
    """A cluster on the test's own loop, and a namespace to write into."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client()

    async def create(self, name: str, **labels: str) -> ConfigMap:
        made = ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels=labels))
        return await self.client.create(catalog.CONFIG_MAPS, made)

    async def delete(self, name: str) -> None:
        await self.client.delete(catalog.CONFIG_MAPS, name, "default")

    async def version(self) -> str:
        return (await self.client.list(catalog.CONFIG_MAPS)).resource_version

    def watch(self, **options: Any) -> Any:
        return aclosing(self.client.watch(catalog.CONFIG_MAPS, "default", WatchOptions(**options)))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with Cluster() as cluster:
        yield World(cluster)


def told(event: WatchEvent[ConfigMap]) -> Told:
    assert event.object is not None, event.status
    return event.type.value, event.object.metadata.name


async def take(stream: Any, count: int) -> list[Told]:
    return [told(await anext(stream)) for _ in range(count)]


async def pass_a_second(w: World, seconds: int) -> int:
    """How many have passed then; everybody has had his turn."""
    assert seconds < 100
    w.cluster.clock.advance(1)
    for _ in range(10):
        await asyncio.sleep(0)
    return seconds + 1


async def rest(stream: Any) -> list[WatchEvent[ConfigMap]]:
    return [event async for event in stream]


@pytest.mark.parametrize("version", ["", "0"])
@async_test
async def test_without_a_version_the_present_comes_first(version: str) -> None:
    async with world() as w:
        await w.create("b")
        await w.create("a")
        async with w.watch(resource_version=version) as stream:
            assert await take(stream, 2) == [("ADDED", "a"), ("ADDED", "b")]
            await w.create("c")
            await w.delete("a")
            events = [await anext(stream) for _ in range(3)]
            assert events[0].ends_initial_events
            assert [told(event) for event in events[1:]] == [("ADDED", "c"), ("DELETED", "a")]


@async_test
async def test_from_a_version_on_only_what_comes_after_it() -> None:
    async with world() as w:
        await w.create("before")
        version = await w.version()
        made = await w.create("after")
        await w.client.update(catalog.CONFIG_MAPS, replace_metadata(made, labels={"x": "y"}))
        await w.delete("after")
        async with w.watch(resource_version=version) as stream:
            events = [await anext(stream) for _ in range(3)]
        assert [told(event) for event in events] == [("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "after")]
        versions = [int(event.object.metadata.resource_version) for event in events if event.object is not None]
        assert versions == sorted(set(versions))
        assert events[2].object is not None
        assert events[2].object.metadata.labels == {"x": "y"}


@async_test
async def test_what_starts_and_stops_matching_comes_and_goes() -> None:
    async with world() as w:
        made = await w.create("moves")
        async with w.watch(resource_version=await w.version(), label_selector="in") as stream:
            made = await w.client.update(catalog.CONFIG_MAPS, replace_metadata(made, labels={"in": ""}))
            await w.create("never")
            await w.client.update(catalog.CONFIG_MAPS, replace_metadata(made, labels={}))
            assert await take(stream, 2) == [("ADDED", "moves"), ("DELETED", "moves")]


@async_test
async def test_one_object_by_name() -> None:
    async with world() as w:
        version = await w.version()
        async with w.watch(resource_version=version, field_selector="metadata.name=wanted") as stream:
            await w.create("other")
            await w.create("wanted")
            assert await take(stream, 1) == [("ADDED", "wanted")]


@async_test
async def test_a_streaming_list_marks_its_end() -> None:
    async with world() as w:
        await w.create("a")
        version = await w.version()
        async with w.watch(send_initial_events=True) as stream:
            assert await take(stream, 1) == [("ADDED", "a")]
            mark = await anext(stream)
            assert mark.ends_initial_events
            assert mark.object is not None
            assert int(mark.object.metadata.resource_version) >= int(version)


@async_test
async def test_a_long_list_comes_in_pieces_and_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "INITIAL_BATCH", 2)
    async with world() as w:
        names = [f"m{number}" for number in range(5)]
        for name in names:
            await w.create(name)
        async with w.watch() as stream:
            assert await take(stream, 5) == [("ADDED", name) for name in names]


@async_test
async def test_a_forgotten_version_is_told_inside_the_stream() -> None:
    async with world() as w:
        old = await w.version()
        await w.create("a")
        await w.cluster.compact_async()
        await w.cluster.restart_async()
        w.client = w.cluster.client()
        async with w.watch(resource_version=old) as stream:
            [event] = await rest(stream)
        assert event.type is EventType.ERROR
        assert event.status is not None
        assert (event.status.code, event.status.reason) == (410, "Expired")
        assert event.status.message.startswith(f"too old resource version: {old} (")


@pytest.mark.parametrize("version", ["abc", "-1", "1.5"])
@async_test
async def test_a_version_that_is_none_is_refused_before_the_stream(version: str) -> None:
    async with world() as w:
        with pytest.raises(APIStatusError) as caught:
            async with w.watch(resource_version=version) as stream:
                await anext(stream)
        assert (caught.value.code, caught.value.reason) == (500, "")
        assert str(caught.value) == (
            f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        )


@async_test
async def test_bad_selectors_are_refused_before_the_stream() -> None:
    async with world() as w:
        with pytest.raises(APIStatusError) as caught:
            async with w.watch(field_selector="data=x") as stream:
                await anext(stream)
        why = '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'
        assert (caught.value.code, str(caught.value)) == (400, why)


@async_test
async def test_it_ends_when_its_time_is_over_after_a_last_bookmark() -> None:
    async with world() as w:
        version = await w.version()
        made = await w.create("a")
        async with w.watch(resource_version=version, timeout_seconds=10) as stream:
            assert await take(stream, 1) == [("ADDED", "a")]
            reader = asyncio.create_task(rest(stream))
            seconds = 0
            while not reader.done():
                seconds = await pass_a_second(w, seconds)
            events = await reader
        assert [event.type.value for event in events] == ["BOOKMARK"]
        assert seconds == 10
        assert events[0].object is not None
        assert int(events[0].object.metadata.resource_version) >= int(made.metadata.resource_version)
        assert not events[0].ends_initial_events


@async_test
async def test_a_quiet_watch_gets_a_bookmark_about_once_a_minute() -> None:
    async with world() as w:
        version = await w.version()
        await w.create("a")
        async with w.watch(resource_version=version, timeout_seconds=600) as stream:
            assert await take(stream, 1) == [("ADDED", "a")]
            waiting = asyncio.create_task(anext(stream))
            for _ in range(3):
                seconds = 0
                while not waiting.done():
                    seconds = await pass_a_second(w, seconds)
                assert (await waiting).type is EventType.BOOKMARK
                assert 54 <= seconds <= 67
                waiting = asyncio.create_task(anext(stream))
            waiting.cancel()
            await asyncio.wait({waiting})


@async_test
async def test_closing_it_leaves_nothing_behind() -> None:
    async with world() as w:
        before = len(asyncio.all_tasks())
        async with w.watch() as stream:
            await anext(stream)
        assert len(asyncio.all_tasks()) == before
