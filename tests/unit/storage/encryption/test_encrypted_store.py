"""A store that encrypts is a store like any other; what lies beneath is encrypted, and what cannot be read says why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from asynctest import async_test
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, encryption, keys, resource_transformers
from kubevouch.machinery.codec.encrypted_values import ENCRYPTED, EncryptedValueError, expect_plain
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.encryption.transformers import Transformers
from kubevouch.storage.interface import (
    MAX_VALUE_BYTES,
    Compacted,
    EventBatch,
    Revision,
    RevisionConflict,
    Store,
    ValueTooLarge,
    lowest,
)
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing import FakeClock
from kubevouch.testing.store_suite import StoreSuite, soon
from kubevouch.testing.store_suite.watches import WatchSuite

SECRET = "/registry/secrets/default/one"
OTHER = "/registry/secrets/default/two"
OPEN = "/registry/configmaps/default/one"
NOT_AUTHENTIC = "cipher: message authentication failed"
FIRST = keys("aesgcm", ("a", KEY_1))
SECOND = keys("aesgcm", ("b", KEY_2))


def over(store: Store, *providers: dict[str, object]) -> EncryptedStore:
    return EncryptedStore(store, encryption((["secrets"], providers)))


class _Everything(Encryption):
    """Of keys that no kind has, too."""

    def __init__(self) -> None:
        super().__init__(resource_transformers(configuration((["secrets"], [FIRST]))))

    def of(self, key: str) -> Transformers | None:
        return super().of(SECRET)


class TestEncryptedStore(StoreSuite):
    def test_a_value_may_have_the_largest_size_and_no_more(self) -> None:
        """What encryption adds counts, as it does in etcd."""

        async def scenario() -> None:
            async with self.opened() as store:
                await store.create("/a", b"x" * (MAX_VALUE_BYTES - 48))
                with pytest.raises(ValueTooLarge):
                    await store.create("/b", b"x" * (MAX_VALUE_BYTES - 47))

        self.run(scenario())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = EncryptedStore(MemoryStore(clock=self.clock), _Everything())
        yield store
        await store.close()


class TestWatchesWithSomethingUnread(WatchSuite):
    """They wait for two things at once, which takes a turn of the loop."""

    events_precede_writes = False

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = EncryptedStore(MemoryStore(clock=self.clock), _Everything())
        store.unread = 0
        yield store
        await store.close()


def why(value: bytes | None) -> str:
    """What a value says that could not be decrypted."""
    assert value is not None
    with pytest.raises(EncryptedValueError) as caught:
        expect_plain(value)
    return str(caught.value)


@async_test
async def test_only_what_is_configured_is_encrypted() -> None:
    memory = MemoryStore(clock=FakeClock())
    store = over(memory, FIRST)
    for key in (SECRET, OPEN):
        revision = await store.create(key, b"one")
        await store.update(key, b"value", revision)
    raw = {item.key: item.value for item in (await memory.list("")).items}
    assert raw[SECRET].startswith(b"k8s:enc:aesgcm:v1:a:") and b"value" not in raw[SECRET]
    assert raw[OPEN] == b"value"
    assert {item.value for item in (await store.list("")).items} == {b"value"}
    assert lowest(store) is memory


@async_test
async def test_a_value_that_cannot_be_read_says_why_and_the_others_are_read() -> None:
    memory = MemoryStore(clock=FakeClock())
    bad = await over(memory, SECOND).create(SECRET, b"with another key")
    store = over(memory, FIRST)
    good = await store.create(OTHER, b"value")
    page = await store.list("/registry/")
    assert why(page.items[0].value) == "no matching key was found for the provided AES transformer"
    assert page.items[1].value == b"value"
    got = await store.get(SECRET)
    assert got is not None and why(got.value).startswith("no matching key")
    with pytest.raises(RevisionConflict) as caught:
        await store.delete(SECRET, good)
    assert caught.value.current is not None and why(caught.value.current.value).startswith("no matching key")
    batch = await anext(store.watch("", Revision(1)))
    assert [event.revision for event in batch] == [bad, good]
    assert why(batch[0].value).startswith("no matching key") and batch[1].value == b"value"
    # It can be deleted, which needs no key.
    await store.delete(SECRET, bad)
    assert await store.get(SECRET) is None


@async_test
async def test_a_value_that_was_moved_or_was_never_encrypted_is_not_taken() -> None:
    """Whoever can write to the medium does not bring in a Secret of their own, nor one that belongs elsewhere."""
    memory = MemoryStore(clock=FakeClock())
    store = over(memory, FIRST)
    await store.create(SECRET, b"value")
    moved = await memory.get(SECRET)
    assert moved is not None
    await memory.create(OTHER, moved.value)
    await memory.create(SECRET + "2", b"k8s\x00 never encrypted")
    await memory.create(OPEN, moved.value)
    found = {item.key: item.value for item in (await store.list("")).items}
    assert found[SECRET] == b"value"
    assert why(found[OTHER]) == NOT_AUTHENTIC
    assert why(found[SECRET + "2"]) == "no matching prefix found"
    assert why(found[OPEN]) == "identity transformer tried to read encrypted data"


@async_test
async def test_a_value_cannot_pretend_to_be_one_that_says_why() -> None:
    memory = MemoryStore(clock=FakeClock())
    await memory.create(OPEN, ENCRYPTED + b"unreadable:\xff<b>")
    got = await over(memory, FIRST).get(OPEN)
    assert got is not None and why(got.value) == "\ufffd<b>"


@async_test
async def test_what_is_stale() -> None:
    memory = MemoryStore(clock=FakeClock())
    await over(memory, FIRST).create(SECRET, b"value")
    await memory.create(OPEN, b"plain")
    assert not await over(memory, FIRST).is_stale(SECRET)
    assert await over(memory, SECOND, FIRST).is_stale(SECRET)
    assert await over(memory, IDENTITY, FIRST).is_stale(SECRET)
    for key in (OPEN, OTHER):
        assert not await over(memory, SECOND, FIRST).is_stale(key)
    # What nobody can read nobody writes.
    assert not await over(memory, SECOND).is_stale(SECRET)


async def _with_a_value_of_another_key() -> tuple[MemoryStore, EncryptedStore]:
    memory = MemoryStore(clock=FakeClock())
    await over(memory, SECOND).create(SECRET, b"value")
    store = over(memory, FIRST)
    assert why((await store.list("")).items[0].value)
    return memory, store


@async_test
async def test_a_watch_ends_when_what_could_not_be_read_can_be() -> None:
    _, store = await _with_a_value_of_another_key()
    watch = store.watch("/registry/", await store.revision())
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    store.encryption.replace(resource_transformers(configuration((["secrets"], [FIRST, SECOND]))))
    with pytest.raises(Compacted):
        await soon(waiting)
    assert (await store.list("")).items[0].value == b"value"
    # From here on nothing is missing, and a watch goes on.
    again = store.watch("/registry/", await store.revision())
    await store.create(OTHER, b"other")
    assert (await anext(again))[0].value == b"other"


@async_test
async def test_a_configuration_that_came_before_the_watch_counts_too() -> None:
    _, store = await _with_a_value_of_another_key()
    store.encryption.replace(resource_transformers(configuration((["secrets"], [FIRST, SECOND]))))
    with pytest.raises(Compacted):
        await soon(anext(store.watch("/registry/", await store.revision())))


@async_test
async def test_what_still_cannot_be_read_does_not_end_the_watch_again() -> None:
    _, store = await _with_a_value_of_another_key()
    store.encryption.recovered()
    with pytest.raises(Compacted):
        await soon(anext(store.watch("/registry/", await store.revision())))
    assert why((await store.list("")).items[0].value)
    watch = store.watch("/registry/", await store.revision())
    await store.create(OTHER, b"other")
    assert (await soon(anext(watch)))[0].value == b"other"


@async_test
async def test_an_event_on_its_way_outlasts_a_wait_that_is_cancelled() -> None:
    _, store = await _with_a_value_of_another_key()
    watch = store.watch("/registry/", await store.revision())
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    await store.create(OTHER, b"other")
    batch: EventBatch = await soon(anext(watch))
    assert batch[0].value == b"other"


def test_a_prefix_of_the_medium_is_authenticated() -> None:
    ours = encryption((["secrets"], [FIRST]))
    theirs = Encryption(resource_transformers(configuration((["secrets"], [FIRST]))), root="/prod/")
    assert ours.associated(SECRET) == SECRET.encode()
    assert theirs.associated(SECRET) == b"/prod/secrets/default/one"
