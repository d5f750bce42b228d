"""Encryption at rest on a real etcd: reading what a kube-apiserver wrote there, and what a value is bound to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asynctest import async_test
from encryption_world import KEY_1, Fixture, configuration, fixtures, keys, resource_transformers
from etcd_server import EtcdServer
from kubevouch.machinery.codec.encrypted_values import EncryptedValueError, expect_plain
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.etcd.store import EtcdStore
from kubevouch.storage.options import EtcdSpec, MemorySpec, root_of
from kubevouch.util.clock import SystemClock

KEY = "/registry/secrets/default/one"
THEIRS = [each for each in fixtures() if each.provider not in ("kms", "identity")]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


def of(options: EtcdOptions, config: bytes) -> Encryption:
    class Unasked:
        prefix = b"k8s:enc:kms:v2:fixture-kms:"

        def read(self, body: bytes, key: bytes) -> None:
            raise AssertionError((body, key))

        write = read

    return Encryption(resource_transformers(config, lambda _config: Unasked()), root_of(EtcdSpec(options)))


@pytest.mark.parametrize("fixture", THEIRS, ids=lambda each: each.name)
def test_what_a_kube_apiserver_wrote_is_read(etcd: EtcdServer, fixture: Fixture) -> None:
    @async_test
    async def scenario() -> None:
        options = EtcdOptions(etcd.endpoints)
        beneath = await EtcdStore.open(options, SystemClock())
        store = EncryptedStore(beneath, of(options, fixture.config))
        revision = await beneath.create(fixture.key, fixture.value)
        try:
            held = await store.get(fixture.key)
            assert held is not None and held.value == fixture.plain
            batch = await anext(store.watch(fixture.key, type(revision)(revision - 1)))
            assert [event.value for event in batch] == [fixture.plain]
        finally:
            await store.delete(fixture.key, revision)
            await store.close()

    scenario()


@async_test
async def test_a_value_is_bound_to_its_key_in_etcd(etcd: EtcdServer) -> None:
    config = configuration((["secrets"], [keys("aesgcm", ("a", KEY_1))]))
    options = EtcdOptions(etcd.endpoints, prefix="/prod")
    prod = EncryptedStore(await EtcdStore.open(options, SystemClock()), of(options, config))
    await prod.create(KEY, b"value")
    raw = await prod.beneath.get(KEY)
    assert raw is not None
    # As a kube-apiserver with --etcd-prefix=/prod reads it.
    found = resource_transformers(config).of(KEY)
    assert found is not None
    assert found.read(raw.value, b"/prod/secrets/default/one").plain == b"value"
    # Beside it, under another prefix, it is worth nothing.
    options = EtcdOptions(etcd.endpoints, prefix="/test")
    test = EncryptedStore(await EtcdStore.open(options, SystemClock()), of(options, config))
    await test.beneath.create(KEY, raw.value)
    moved = await test.get(KEY)
    assert moved is not None
    with pytest.raises(EncryptedValueError, match="message authentication failed"):
        expect_plain(moved.value)
    await prod.close()
    await test.close()


def test_where_keys_lie() -> None:
    assert root_of(MemorySpec()) == "/registry/"
    assert root_of(EtcdSpec(EtcdOptions(("http://a:1",), prefix="/prod"))) == "/prod/"
