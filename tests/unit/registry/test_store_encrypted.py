"""registry/store.py over a store that encrypts: keys are rotated by updates that change nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aio import until
from asynctest import async_test
from decisions import BOB
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, encryption, keys, resource_transformers
from kubevouch.admission.chain import AdmissionChain
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.registry.core import configmaps
from kubevouch.registry.interface import Context
from kubevouch.registry.store import ResourceStore
from kubevouch.registry.write_budget import WriteBudget
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.measured import MeasuredStore
from kubevouch.storage.memory import MemoryStore
from kubevouch.storage.watchcache.cacher import Cacher
from kubevouch.testing.clock import FakeClock

FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aesgcm", ("b", KEY_2))


class _Silent:
    def call(self, operation: str, key: str, seconds: float, *, failed: bool) -> None: ...


class World:
    def __init__(self, memory: MemoryStore, *providers: dict[str, Any]) -> None:
        self.clock = FakeClock()
        self.memory = memory
        self.encryption = encryption((["configmaps"], providers))
        store = MeasuredStore(EncryptedStore(memory, self.encryption), self.clock, _Silent())
        self.cacher = Cacher(store, self.clock)
        self.maps: ResourceStore[ConfigMap] = ResourceStore(
            configmaps.DEFINITION, store, self.cacher, AdmissionChain(), self.clock, WriteBudget(self.clock)
        )

    def context(self, **parts: Any) -> Context:
        return Context(user=BOB, now=self.clock.now(), api_version="v1", field_manager="test", **parts)

    def use(self, *providers: dict[str, Any]) -> None:
        self.encryption.replace(resource_transformers(configuration((["configmaps"], providers))))

    async def create(self, name: str = "a") -> str:
        obj = ConfigMap(metadata=ObjectMeta(name=name, namespace="n"), data={"k": "v"})
        return (await self.maps.create(self.context(), "n", obj)).obj.metadata.resource_version

    async def touch(self, name: str = "a", **context: Any) -> str:
        """An update that changes nothing."""

        async def transform(existing: ConfigMap | None) -> ConfigMap:
            assert existing is not None
            return existing

        stored, _ = await self.maps.update(self.context(**context), "n", name, transform)
        return stored.obj.metadata.resource_version


@asynccontextmanager
async def world(*providers: dict[str, Any], memory: MemoryStore | None = None) -> AsyncIterator[World]:
    made = World(memory or MemoryStore(clock=FakeClock()), *providers)
    await made.cacher.start()
    yield made
    await made.cacher.close()


@async_test
async def test_an_update_that_changes_nothing_rotates_a_key_once() -> None:
    async with world(FIRST) as w:
        made = await w.create()
        assert await w.touch() == made
        w.use(SECOND, FIRST)
        assert await w.touch(dry_run=True) == made
        rotated = await w.touch()
        assert int(rotated) == int(made) + 1
        assert await w.touch() == rotated
        raw = await w.memory.get("/registry/configmaps/n/a")
        assert raw is not None and raw.value.startswith(b"k8s:enc:aesgcm:v1:b:")
        # The former key is not needed any more.
        w.use(SECOND)
        assert await w.touch() == rotated


@pytest.mark.parametrize(("before", "after"), [(IDENTITY, FIRST), (FIRST, IDENTITY)], ids=["encrypt", "decrypt"])
def test_what_is_there_is_encrypted_and_decrypted_for_good(before: Any, after: Any) -> None:
    @async_test
    async def scenario() -> None:
        async with world(before, after) as w:
            made = await w.create()
            w.use(after, before)
            assert int(await w.touch()) == int(made) + 1
            w.use(after)
            assert (await w.maps.get("n", "a")).obj.data == {"k": "v"}
            assert int(await w.touch()) == int(made) + 1

    scenario()


@async_test
async def test_a_value_that_cannot_be_encrypted_is_not_written() -> None:
    class Broken:
        prefix = b"k8s:enc:kms:v2:broken:"

        def read(self, body: bytes, key: bytes) -> Any:
            raise AssertionError((body, key))

        def write(self, plain: bytes, key: bytes) -> bytes:
            raise TransformError("the plug-in is away")

    async with world(FIRST) as w:
        config = configuration(
            (["configmaps"], [{"kms": {"apiVersion": "v2", "name": "broken", "endpoint": "unix:///k"}}])
        )
        w.encryption.replace(resource_transformers(config, lambda _config: Broken()))
        with pytest.raises(APIStatusError) as caught:
            await w.create()
        assert (caught.value.code, str(caught.value)) == (500, "Internal error occurred: the plug-in is away")
        assert (await w.memory.list("")).items == []


@async_test
async def test_a_key_that_comes_back_brings_its_objects_back() -> None:
    memory = MemoryStore(clock=FakeClock())
    async with world(FIRST, memory=memory) as w:
        made = await w.create()
    async with world(SECOND, memory=memory) as w:
        await w.create("b")
        w.use(SECOND, FIRST)
        await until(lambda: w.maps.cache.get("/registry/configmaps/n/a") is not None)
        assert (await w.maps.get("n", "a")).obj.metadata.resource_version == made
