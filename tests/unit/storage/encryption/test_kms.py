"""The provider kms against a real plug-in on a socket, and against what a kube-apiserver wrote with one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aio import until
from asynctest import async_test
from encryption_world import Fixture, Recorded, configuration, fixtures, resource_transformers
from kms_plugin import KEK, NONCE, KMSPlugin
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.codec.encrypted_values import EncryptedValueError, expect_plain
from kubevouch.storage.encryption import kms
from kubevouch.storage.encryption.ciphers import GCMCipher
from kubevouch.storage.encryption.encryption import Encryption
from kubevouch.storage.encryption.interface import Read, SeedMissing, TransformError
from kubevouch.storage.encryption.kms import (
    POLL_SECONDS_WHEN_BAD,
    RETRY_SECONDS,
    SEED_SECONDS,
    WRITE_SECONDS,
    KMSProvider,
)
from kubevouch.storage.encryption.kms_messages import EncryptedObject, StatusResponse
from kubevouch.storage.encryption.kms_service import KMSService
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.interface import Compacted
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing import FakeClock
from kubevouch.testing.store_suite import soon

THEIRS = [each for each in fixtures() if each.provider == "kms"]
KEY = "/registry/secrets/default/one"
CODEC = protobuf.codec_for(EncryptedObject)
MADE = ["Status", "Encrypt", "Decrypt"]
"""The calls that make a seed."""


class World:
    """A plug-in, and a provider that has not asked it yet."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.clock = FakeClock()
        self.metrics = Recorded()
        self.plugin = KMSPlugin()
        self.encryption: Encryption | None = None
        self.provider = self.another()

    def another(self, timeout: float = 60.0) -> KMSProvider:
        """As another server has it."""
        service = KMSService("fixture-kms", str(self.socket), timeout, self.clock, self.metrics)
        return KMSProvider("fixture-kms", service, self.clock, self.metrics, self._recovered)

    def _recovered(self) -> None:
        if self.encryption is not None:
            self.encryption.recovered()

    def store(self, memory: MemoryStore) -> EncryptedStore:
        config = configuration(
            (["secrets"], [{"kms": {"apiVersion": "v2", "name": "fixture-kms", "endpoint": "unix:///k"}}])
        )
        self.encryption = Encryption(resource_transformers(config, lambda _config: self.provider))
        return EncryptedStore(memory, self.encryption)


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    made = World(folder / "k.sock")
    async with made.plugin.running(made.socket):
        yield made
        await made.provider.close()


async def read(provider: KMSProvider, body: bytes, key: str = KEY) -> Read:
    while True:
        try:
            return provider.read(body, key.encode())
        except SeedMissing as missing:
            await soon(missing.fetch())


def body(fixture: Fixture) -> bytes:
    return fixture.value.removeprefix(b"k8s:enc:kms:v2:fixture-kms:")


@async_test
async def test_what_a_kube_apiserver_wrote_is_read(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        for fixture in THEIRS:
            found = await read(w.provider, body(fixture), fixture.key)
            assert found.plain == fixture.plain
            assert found.stale is (fixture.tree["encryption"]["key_id"] != "kek-1")
            with pytest.raises(TransformError, match="cipher: message authentication failed"):
                await read(w.provider, body(fixture), fixture.key + "x")
        # Once each, not once a value; the first calls made a seed of our own, and looked whether it can be had again.
        seeds = {each.tree["encryption"]["seed_b64"] for each in THEIRS}
        assert w.plugin.calls == [*MADE, *["Decrypt"] * len(seeds)]


@async_test
async def test_what_is_written_is_read_by_another_server(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        first, second = (w.provider.write(b"value", KEY.encode()) for _ in range(2))
        assert first[1:40] != second[1:40]
        obj = CODEC.decode(first)
        assert (obj.key_id, obj.encrypted_dek_source_type) == ("kek-1", 1)
        # Its own needs no plug-in.
        assert await read(w.provider, first) == Read(b"value", stale=False)
        assert w.plugin.calls == MADE
        another = w.another()
        await another.check()
        w.plugin.calls.clear()
        assert await read(another, first) == Read(b"value", stale=False)
        assert await read(another, second) == Read(b"value", stale=False)
        assert w.plugin.calls.count("Decrypt") == 1
        await another.close()


@async_test
async def test_writes_end_three_minutes_after_the_plug_in_was_well_and_reads_go_on(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with pytest.raises(TransformError, match="got unexpected nil transformer"):
            w.provider.write(b"value", b"")
        await w.provider.check()
        written = w.provider.write(b"value", KEY.encode())
        w.plugin.status = StatusResponse(version="v2", healthz="no")
        w.clock.advance(WRITE_SECONDS)
        w.provider.write(b"value", b"")
        w.clock.advance(0.5)
        w.plugin.refuses = {"Status"}
        with pytest.raises(TransformError, match="the key is locked away"):
            await w.provider.check()
        with pytest.raises(TransformError) as caught:
            w.provider.write(b"value", b"")
        expired = f'encryptedDEKSource with keyID hash "{kms.key_hash("kek-1")}" expired at '
        assert str(caught.value).startswith(expired) and "(current time is 2" in str(caught.value)
        assert (await read(w.provider, written)).plain == b"value"
        # The key is still the one: the seed goes on.
        w.plugin.status, w.plugin.refuses = StatusResponse(version="v2", healthz="ok"), set()
        await w.provider.check()
        w.provider.write(b"value", b"")
        assert w.plugin.calls.count("Encrypt") == 1


@async_test
async def test_another_key_of_the_plug_in_makes_values_stale_and_another_seed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        old = w.provider.write(b"value", KEY.encode())
        w.plugin.key_id = "kek-2"
        await w.provider.check()
        assert await read(w.provider, old) == Read(b"value", stale=True)
        new = w.provider.write(b"value", KEY.encode())
        assert CODEC.decode(new).key_id == "kek-2"
        assert await read(w.provider, new) == Read(b"value", stale=False)


@async_test
async def test_a_plug_in_that_names_one_key_and_uses_another_leaves_the_former_seed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        w.plugin.key_id, w.plugin.encrypts_as = "kek-2", "kek-3"
        with pytest.raises(TransformError, match="failed to rotate DEK") as caught:
            await w.provider.check()
        for key_id in ("kek-1", "kek-2", "kek-3"):
            assert kms.key_hash(key_id) in str(caught.value)
            assert key_id not in str(caught.value)
        assert CODEC.decode(w.provider.write(b"value", b"")).key_id == "kek-1"
        w.clock.advance(WRITE_SECONDS + 1)
        with pytest.raises(TransformError, match="expired"):
            w.provider.write(b"value", b"")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": StatusResponse(version="v2", healthz="bad")}, "got unexpected healthz status: bad"),
        ({"status": StatusResponse(version="v1", healthz="ok")}, "expected KMSv2 API version v2, got v1"),
        ({"key_id": ""}, 'got invalid KMSv2 KeyID hash "": keyID is empty'),
        ({"key_id": "x" * 1025}, "keyID is 1025 bytes, which exceeds the max size of 1024"),
        ({"refuses": {"Encrypt"}}, "failed to encrypt DEK, error: rpc error: code = FailedPrecondition desc = the key"),
        (
            {"annotations": {"plain": b""}},
            'annotations: Invalid value: "plain": should be a domain with at least two segments separated by dots',
        ),
        (
            {"annotations": {"a.Example": b""}},
            'annotations: Invalid value: "a.Example": a lowercase RFC 1123 subdomain',
        ),
        ({"annotations": {"": b""}}, "failed to validate annotations: annotations: Required value"),
        (
            {"annotations": {"a.example.com": bytes(32 << 10)}},
            "which exceeds the max size of 32768",
        ),
        ({"annotations": {"a.example.com": bytes(200 << 10)}}, "rpc error: code = ResourceExhausted desc = "),
    ],
)
def test_what_a_plug_in_may_not_say(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    @async_test
    async def scenario() -> None:
        async with world(tmp_path) as w:
            for name, value in changes.items():
                setattr(w.plugin, name, value)
            with pytest.raises(TransformError) as caught:
                await w.provider.check()
            assert "kmsv2 Provider fixture-kms is not healthy, error: " in str(caught.value)
            assert why in str(caught.value)

    scenario()


@async_test
async def test_a_version_that_changes_is_not_well(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        w.plugin.status = StatusResponse(version="v2beta1", healthz="ok")
        with pytest.raises(TransformError, match="should not change after the initial status response version v2, got"):
            await w.provider.check()
        another = w.another()
        await another.check()
        await another.close()


@async_test
async def test_a_plug_in_that_is_not_there(tmp_path: Path) -> None:
    w = World(tmp_path / "nothing.sock")
    provider = w.another(timeout=0.05)
    with pytest.raises(TransformError, match="rpc error: code = DeadlineExceeded"):
        await provider.check()
    # For a while that is known: many who ask for readiness are not many calls.
    calls = len(w.metrics.calls)
    with pytest.raises(TransformError, match="failed to perform status section"):
        await provider.probe()
    assert len(w.metrics.calls) == calls
    await provider.close()
    await w.provider.close()


@async_test
async def test_readiness_asks_rarely(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for _ in range(5):
            await w.provider.probe()
        assert w.plugin.calls.count("Status") == 1
        w.clock.advance(kms.PROBE_SECONDS)
        await w.provider.probe()
        assert w.plugin.calls.count("Status") == 2


@async_test
async def test_values_of_a_seed_that_is_refused_say_so_and_the_plug_in_is_asked_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        memory = MemoryStore(clock=w.clock)
        first = w.store(memory)
        for name in range(20):
            await first.create(f"{KEY}{name}", b"value")
        w.provider = w.another()
        await w.provider.check()
        store = w.store(memory)
        w.plugin.refuses = {"Decrypt"}
        w.plugin.calls.clear()
        for item in (await store.list("/registry/")).items:
            with pytest.raises(EncryptedValueError) as caught:
                expect_plain(item.value)
            assert str(caught.value) == (
                "failed to decrypt DEK, error: rpc error: code = FailedPrecondition desc = the key is locked away"
            )
        assert w.plugin.calls == ["Decrypt"]
        # As soon as it can be had a watch begins anew, without anybody asking for the value.
        watching = asyncio.ensure_future(anext(store.watch("/registry/", await store.revision())))
        polling = asyncio.create_task(w.provider.poll())
        await until(lambda: w.plugin.calls.count("Decrypt") == 2)
        w.plugin.refuses = set()
        await w.clock.until_asleep()
        await w.clock.run(kms.POLL_SECONDS)
        with pytest.raises(Compacted):
            await soon(watching)
        assert {item.value for item in (await store.list("/registry/")).items} == {b"value"}
        polling.cancel()
        await asyncio.wait({polling})


@async_test
async def test_many_readers_of_a_seed_share_a_call(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        written = w.provider.write(b"value", KEY.encode())
        w.plugin.calls.clear()
        another = w.another()
        found = await asyncio.gather(*(read(another, written) for _ in range(20)))
        assert {each.plain for each in found} == {b"value"}
        assert w.plugin.calls.count("Decrypt") == 1
        w.clock.advance(SEED_SECONDS + 1)
        await read(another, written)
        assert w.plugin.calls.count("Decrypt") == 2
        await another.close()


@async_test
async def test_a_refused_seed_is_asked_for_again_after_a_while(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.plugin.refuses = {"Decrypt"}
        for _ in range(3):
            with pytest.raises(TransformError, match="failed to decrypt DEK"):
                await read(w.provider, body(THEIRS[0]), THEIRS[0].key)
        assert w.plugin.calls == ["Decrypt"]
        w.clock.advance(RETRY_SECONDS)
        w.plugin.refuses = set()
        assert (await read(w.provider, body(THEIRS[0]), THEIRS[0].key)).plain == THEIRS[0].plain


@async_test
async def test_seeds_in_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kms, "MAX_SEEDS", 2)
    async with world(tmp_path) as w:
        written = []
        for number in range(3):
            w.plugin.key_id = f"kek-{number}"
            await w.provider.check()
            written.append(w.provider.write(b"value", KEY.encode()))
        w.plugin.calls.clear()
        for each in written:
            assert (await read(w.provider, each)).plain == b"value"
        assert w.plugin.calls.count("Decrypt") == 3  # each time the one that was dropped


def _stored(**changes: object) -> bytes:
    """A value as Kubernetes before 1.29 stored it: the plug-in's answer is the key itself."""
    parts = {
        "encrypted_data": GCMCipher(bytes(32)).encrypt(b"value", KEY.encode()),
        "key_id": "kek-1",
        "encrypted_dek_source": AESGCM(KEK).encrypt(bytes(12), bytes(32), b"kek-1"),
        "annotations": {NONCE: bytes(12)},
    }
    return CODEC.encode(EncryptedObject(**parts | changes))  # type: ignore[arg-type]


@async_test
async def test_a_value_without_a_seed_is_read_and_stale(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.provider.check()
        assert await read(w.provider, _stored()) == Read(b"value", stale=True)


@async_test
async def test_the_order_of_fields_does_not_matter(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first, rest = kms._split(_stored())
        turned = rest + protobuf.length_delimited(1, first)
        assert (await read(w.provider, turned)).plain == b"value"


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"\xff", "Error parsing message"),
        (b"\x0a\xff\xff\xff\xff\xff\xff", "Error parsing message"),
        (b"\x0a\x05abc", "Error parsing message"),
        (b"", "encrypted data is empty"),
        (_stored(encrypted_data=b""), "encrypted data is empty"),
        (_stored(encrypted_dek_source_type=2), "unknown encryptedDEKSourceType: 2"),
        (_stored(encrypted_dek_source=b""), "failed to validate encrypted DEK source: encrypted DEK source is empty"),
        (
            _stored(encrypted_dek_source=bytes(1025)),
            "encrypted DEK source is 1025 bytes, which exceeds the max size of",
        ),
        (_stored(key_id=""), "failed to validate key id: keyID is empty"),
        (_stored(annotations={"x": b""}), "failed to validate annotations"),
        (
            _stored(encrypted_dek_source=AESGCM(KEK).encrypt(bytes(12), bytes(31), b"kek-1")),
            "crypto/aes: invalid key size 31",
        ),
        (
            _stored(
                encrypted_dek_source=AESGCM(KEK).encrypt(bytes(12), bytes(31), b"kek-1"), encrypted_dek_source_type=1
            ),
            "invalid seed length 31 used for key generation",
        ),
        (
            _stored(encrypted_data=bytes(40), encrypted_dek_source_type=1),
            "the stored data was shorter than the required",
        ),
        (_stored(encrypted_data=bytes(60), encrypted_dek_source_type=1), "cipher: message authentication failed"),
        (_stored(encrypted_dek_source=b"forged"), "failed to decrypt DEK, error: rpc error: code = InvalidArgument"),
    ],
    # Some are encrypted anew at each start, and every test process has to call them the same.
    ids=itertools.count(),
)
def test_what_cannot_be_read(tmp_path: Path, stored: bytes, why: str) -> None:
    @async_test
    async def scenario() -> None:
        async with world(tmp_path) as w:
            with pytest.raises(TransformError) as caught:
                await read(w.provider, stored)
            assert why in str(caught.value)

    scenario()


@async_test
async def test_a_plug_in_is_looked_after(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        polling = asyncio.create_task(w.provider.poll())
        await until(lambda: w.plugin.calls == MADE)
        w.plugin.refuses = {"Status"}
        await w.clock.until_asleep()
        await w.clock.run(kms.POLL_SECONDS)
        await until(lambda: w.plugin.calls.count("Status") == 2)
        await w.clock.until_asleep()
        await w.clock.run(POLL_SECONDS_WHEN_BAD)
        await until(lambda: w.plugin.calls.count("Status") == 3)
        polling.cancel()
        await asyncio.wait({polling})
