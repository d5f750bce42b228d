"""client/cache/informer.py: handlers, resync, sharing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asynctest import async_test
from cache_world import RESOURCE, World, bookmark, config_map, error_event, event, listing, names, turns, world
from kubevouch.api.catalog import CONFIG_MAPS, SECRETS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.cache.informer import (
    FACTORY_RESYNC_SECONDS,
    InformerFactory,
    KeyHandler,
    SharedInformer,
    strip_managed_fields,
)
from kubevouch.client.workqueue import Workqueue
from kubevouch.machinery.meta import ManagedFieldsEntry, replace_metadata
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock, settle
from kubevouch.testing.logs import capture_logs
from scripted_server import stream
from throwaway_ca import ThrowawayCA

A, B = config_map("a", 1), config_map("b", 2)


class Recorder:
    """A handler that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_add(self, obj: ConfigMap, *, initial: bool) -> None:
        self.heard.append(f"add {obj.metadata.name}{' initial' if initial else ''}")

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        versions = f"{old.metadata.resource_version}>{new.metadata.resource_version}"
        self.heard.append(f"update {new.metadata.name} {versions}")

    def on_delete(self, obj: ConfigMap, *, missed: bool) -> None:
        self.heard.append(f"delete {obj.metadata.name}{' missed' if missed else ''}")


class Broken(Recorder):
    def on_add(self, obj: ConfigMap, *, initial: bool) -> None:
        raise ValueError("broken")


@asynccontextmanager
async def at_work(informer: SharedInformer[ConfigMap] | InformerFactory) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def informer_of(at: World, resync_seconds: float = 0.0, streaming_lists: bool = False) -> SharedInformer[ConfigMap]:
    return SharedInformer(
        at.client, RESOURCE, clock=at.clock, random=lambda: 0.0, resync_seconds=resync_seconds,
        streaming_lists=streaming_lists,
    )  # fmt: skip


@async_test
async def test_handlers_hear_of_everything_in_order_and_missed_deletions_as_tombstones(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with world(ca, serving) as at:
        live = [event("MODIFIED", config_map("a", 8)), event("ADDED", config_map("c", 9)), event("DELETED", B)]
        at.server.script(
            listing(7, A, B),
            stream([*live, error_event(410, "Expired")]),
            listing(20, config_map("a", 8), config_map("d", 19)),
            at.open_watch(),
        )
        informer, handler = informer_of(at), Recorder()
        informer.add_handler(handler)
        assert not informer.synced
        async with at_work(informer):
            await informer.wait_synced()
            await at.backed_off(0.8)
            await at.until_stalled()
            assert handler.heard == [
                "add a initial", "add b initial", "update a 1>8", "add c", "delete b",
                # a has not changed, d is new, c went while nobody looked
                "add d", "delete c missed",
            ]  # fmt: skip
            assert names(informer.lister.list()) == ["a", "d"]
            assert informer.lister.get("a", "n") == config_map("a", 8)
            assert informer.resource_version == "20"


@async_test
async def test_a_late_handler_hears_of_what_is_there_and_a_removed_one_of_nothing(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with world(ca, serving) as at:
        go_on = asyncio.Event()

        async def wait(_request: object) -> None:
            await go_on.wait()

        at.server.script(listing(7, A), stream([], then=wait), at.open_watch(event("ADDED", B)))
        informer, early, late = informer_of(at), Recorder(), Recorder()
        registration = informer.add_handler(early)
        async with at_work(informer):
            await informer.wait_synced()
            informer.add_handler(late)
            assert late.heard == ["add a initial"]
            informer.remove_handler(registration)
            at.clock.advance(5)
            go_on.set()
            await at.until_stalled()
            assert (early.heard, late.heard) == (["add a initial"], ["add a initial", "add b"])


@async_test
async def test_one_handler_s_crash_does_not_touch_the_others(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with world(ca, serving) as at:
        at.server.script(listing(7, A, B), at.open_watch())
        informer, good = informer_of(at), Recorder()
        informer.add_handler(Broken())
        informer.add_handler(good)
        with capture_logs() as logs:
            async with at_work(informer):
                await at.until_stalled()
        assert good.heard == ["add a initial", "add b initial"]
        assert [entry["handler"] for entry in logs if entry["log_level"] == "error"] == ["Broken.on_add"] * 2


@async_test
async def test_resync_tells_those_who_want_it_from_the_cache_without_a_list(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with world(ca, serving) as at:
        at.server.script(listing(7, A), at.open_watch())
        informer = informer_of(at, resync_seconds=100)
        default, never, often, late = Recorder(), Recorder(), Recorder(), Recorder()
        informer.add_handler(default)
        informer.add_handler(never, resync_seconds=0)
        informer.add_handler(often, resync_seconds=0.001)  # a second is the least
        async with at_work(informer):
            await at.until_stalled()
            registration = informer.add_handler(late)
            for handler in (default, never, often, late):
                handler.heard.clear()
            await at.clock.run(100)
            assert default.heard == late.heard == ["update a 1>1"]
            assert never.heard == []
            assert often.heard == ["update a 1>1"] * 100
            informer.remove_handler(registration)
            await at.clock.run(100)
            assert len(late.heard) == 1
            assert len(at.server.seen) == 2


@async_test
async def test_an_informer_runs_once_at_a_time(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    async with world(ca, serving) as at:
        at.server.script(listing(7, A), at.open_watch())
        informer = informer_of(at)
        async with at_work(informer):
            await at.until_stalled()
            with pytest.raises(RuntimeError, match="running already"):
                await informer.run()


@async_test
async def test_keys_go_to_a_work_queue(ca: ThrowawayCA, serving: ssl.SSLContext) -> None:
    queue: Workqueue[str] = Workqueue(FakeClock())
    async with world(ca, serving) as at:
        frames = [event("ADDED", A), bookmark(9, end=True), event("MODIFIED", config_map("a", 10)), event("DELETED", A)]
        at.server.script(stream(frames), at.open_watch())
        informer = informer_of(at, streaming_lists=True)
        informer.add_handler(KeyHandler(queue.add))
        informer.add_handler(KeyHandler(queue.add, lambda obj: obj.metadata.name))
        async with at_work(informer):
            await at.until_stalled()
    assert [await queue.get(), await queue.get(), len(queue)] == ["n/a", "a", 0]


@async_test
async def test_a_factory_makes_each_informer_once_and_strips_managed_fields(
    ca: ThrowawayCA, serving: ssl.SSLContext
) -> None:
    async with world(ca, serving) as at:
        managed = replace_metadata(A, managed_fields=[ManagedFieldsEntry(manager="m")])
        at.server.script(listing(7, managed), at.open_watch(), listing(8, B), at.open_watch())
        factory = InformerFactory(at.client, at.clock, random=lambda: 0.5, streaming_lists=False)
        informer = factory.informer(RESOURCE)
        assert factory.informer(RESOURCE) is informer
        async with at_work(factory):
            await factory.wait_synced()
            assert informer.lister.list() == [A]
            await at.until_stalled()
            late = factory.informer(RESOURCE, namespace="n", label_selector="x")
            assert late is not informer
            await factory.wait_synced()
            await at.until_stalled()
            assert late.lister.list() == [B]
            assert [seen.path for seen in at.server.seen][2:] == ["/api/v1/namespaces/n/configmaps"] * 2
            assert at.queries[2]["labelSelector"] == "x"
            handler = Recorder()
            informer.add_handler(handler)
            await turns()
            assert at.clock.slept[-1] == 1.5 * FACTORY_RESYNC_SECONDS


@async_test
async def test_a_factory_that_is_being_stopped_starts_nothing_more() -> None:
    async with Cluster() as cluster:
        factory = InformerFactory(cluster.client(), FakeClock())
        asked: list[SharedInformer[Any]] = []

        class Late(SharedInformer[Any]):
            """Asks for one more when it is cancelled itself."""

            async def run(self) -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    asked.append(factory.informer(SECRETS))

        factory._informers["late",] = Late(cluster.client(), CONFIG_MAPS, clock=FakeClock())
        task = asyncio.create_task(factory.run())
        await settle()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() and len(asked) == 1


def test_strip_managed_fields_leaves_others_alone() -> None:
    assert strip_managed_fields(A) is A
