"""Rotation of keys over a whole store: what is stale is written again, and nothing of before is left in the file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, encryption, keys, resource_transformers
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.encryption.rewriting import Rewritten, rewrite
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.interface import EncryptionFailed, StoreInUse
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.testing import FakeClock

FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aescbc", ("b", KEY_2))
SECRETS = [f"/registry/secrets/default/{number:03}" for number in range(80)]
OPEN = "/registry/configmaps/default/open"


class World:
    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.path = folder / "store.db"
        self.place = SQLitePlace(self.path)
        self.told: list[tuple[int, int]] = []

    async def fill(self, *providers: dict[str, Any]) -> None:
        store = EncryptedStore(await self.place.open(self.clock), secrets(*providers))
        await asyncio.gather(*(store.create(key, f"value of {key}".encode()) for key in SECRETS))
        await store.create(OPEN, b"open")
        await store.close()

    async def rewrite(self, encrypted: Encryption) -> Rewritten:
        return await rewrite(
            self.place, encrypted, self.clock, lambda done, of: self.told.append((done, of)), shared=False
        )

    async def raw(self) -> dict[str, bytes]:
        async with self.place.snapshot(self.clock) as snapshot:
            return {each.key: each.value async for batch in snapshot.batches() for each in batch}

    def bytes_on_disk(self) -> bytes:
        return b"".join(each.read_bytes() for each in self.path.parent.glob("store.db*"))


def secrets(*providers: dict[str, Any]) -> Encryption:
    return encryption((["secrets"], providers))


@async_test
async def test_a_key_is_rotated_and_the_former_one_is_needed_no_more(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.fill(FIRST)
    done = await w.rewrite(secrets(SECOND, FIRST))
    assert (done.looked_at, done.rewritten, done.unreadable_count) == (80, 80, 0)
    assert w.told[-1] == (80, 80)
    raw = await w.raw()
    assert raw.pop(OPEN) == b"open"
    new = secrets(SECOND)
    for key, value in raw.items():
        assert value.startswith(b"k8s:enc:aescbc:v1:b:")
        assert (await new.read(key, value)).plain == f"value of {key}".encode()
    assert b"k8s:enc:aesgcm" not in w.bytes_on_disk()
    # The next run finds nothing to do.
    again = await w.rewrite(secrets(SECOND, FIRST))
    assert (again.looked_at, again.rewritten, again.revision) == (80, 0, done.revision)


@async_test
async def test_what_was_stored_open_is_nowhere_in_the_file_any_more(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.fill(IDENTITY)
    assert b"value of /registry/secrets/default/077" in w.bytes_on_disk()
    assert (await w.rewrite(secrets(FIRST, IDENTITY))).rewritten == 80
    assert b"value of" not in w.bytes_on_disk()
    # And back.
    assert (await w.rewrite(secrets(IDENTITY, FIRST))).rewritten == 80
    assert (await w.raw())[SECRETS[0]] == b"value of /registry/secrets/default/000"


@async_test
async def test_a_run_that_was_ended_is_gone_on_with(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.fill(FIRST)

    def interrupt(done: int, of: int) -> None:
        if of and done < of:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await rewrite(w.place, secrets(SECOND, FIRST), w.clock, interrupt, shared=False)
    done = await w.rewrite(secrets(SECOND, FIRST))
    assert (done.looked_at, done.rewritten) == (80, 80 - 64)


@async_test
async def test_values_that_end_keep_their_end(tmp_path: Path) -> None:
    w = World(tmp_path)
    store = EncryptedStore(await w.place.open(w.clock), secrets(FIRST))
    await store.create(SECRETS[0], b"value", ttl=100)
    await store.close()
    w.clock.advance(40)
    assert (await w.rewrite(secrets(SECOND, FIRST))).rewritten == 1
    async with w.place.snapshot(w.clock) as snapshot:
        (record,) = [each async for batch in snapshot.batches() for each in batch]
    assert record.expires is not None
    assert round(record.expires / 1_000_000 - w.clock.now().timestamp()) == 60


@async_test
async def test_what_cannot_be_read_is_named_and_left(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.fill(FIRST)
    before = await w.raw()
    done = await w.rewrite(secrets(SECOND))
    assert (done.rewritten, done.unreadable_count, len(done.unreadable)) == (0, 80, 10)
    assert done.unreadable[0] == (SECRETS[0], "no matching prefix found")
    # A resource that the configuration names no more.
    done = await w.rewrite(encryption((["configmaps"], [FIRST, IDENTITY])))
    assert (done.looked_at, done.rewritten, done.unreadable_count) == (1, 1, 80)
    assert done.unreadable[0] == (SECRETS[0], "the configuration does not name its resource")
    after = await w.raw()
    assert {key: after[key] for key in SECRETS} == {key: before[key] for key in SECRETS}


@async_test
async def test_a_store_in_use_is_left(tmp_path: Path) -> None:
    w = World(tmp_path)
    await w.fill(FIRST)
    holding = await w.place.open(w.clock)
    with pytest.raises(StoreInUse):
        await w.rewrite(secrets(SECOND, FIRST))
    await holding.close()


@async_test
async def test_what_cannot_be_encrypted_ends_it(tmp_path: Path) -> None:
    class Broken:
        prefix = b"k8s:enc:kms:v2:broken:"

        def read(self, body: bytes, key: bytes) -> Any:
            raise AssertionError((body, key))

        def write(self, plain: bytes, key: bytes) -> bytes:
            raise TransformError("the plug-in is away")

    w = World(tmp_path)
    await w.fill(IDENTITY)
    plugin = {"kms": {"apiVersion": "v2", "name": "broken", "endpoint": "unix:///k"}}
    config = configuration((["secrets"], [plugin, IDENTITY]))
    with pytest.raises(EncryptionFailed, match="the plug-in is away"):
        await w.rewrite(Encryption(resource_transformers(config, lambda _config: Broken())))
    assert (await w.raw())[SECRETS[0]].startswith(b"value of")
