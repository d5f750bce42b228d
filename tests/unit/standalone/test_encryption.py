"""Encryption at rest by kube-apiserver's flags: the file, and what becomes of its changes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aio import until
from asynctest import async_test
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, keys
from kms_plugin import KMSPlugin
from kubevouch.standalone.encryption import (
    RELOAD_SECONDS,
    START_SECONDS,
    SWITCH_SECONDS,
    EncryptionAtRest,
    EncryptionOptionsError,
    PluginsUnavailable,
    at_rest,
)
from kubevouch.standalone.encryption_options import EncryptionOptions
from kubevouch.storage.encryption.kms import PROBE_SECONDS
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing import Cluster
from kubevouch.testing.clock import FakeClock

KEY = "/registry/secrets/default/one"
FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aescbc", ("b", KEY_2))


def file(folder: Path, *providers: dict[str, Any]) -> Path:
    path = folder / "encryption.json"
    path.write_bytes(configuration((["secrets"], providers)))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: no such file or directory"),
        (b"", r"encryption provider configuration file .* is empty"),
        (b"kind: Secret\napiVersion: v1\n", 'no kind "Secret" is registered for version "v1"'),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EncryptionOptionsError, match=why):
        at_rest(EncryptionOptions(path), FakeClock())


def test_reload_without_a_file() -> None:
    why = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
    with pytest.raises(EncryptionOptionsError, match=why):
        at_rest(EncryptionOptions(automatic_reload=True), FakeClock())
    assert at_rest(EncryptionOptions(), FakeClock()) is None


@async_test
async def test_the_file_is_followed_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    path = file(tmp_path, FIRST, IDENTITY)
    made = at_rest(EncryptionOptions(path, automatic_reload=True), clock)
    assert made is not None
    memory = MemoryStore(clock=clock)
    store = EncryptedStore(memory, made.encryption)

    async def written() -> bytes:
        held = await memory.get(KEY)
        await (store.update(KEY, b"value", held.revision) if held else store.create(KEY, b"value"))
        held = await memory.get(KEY)
        assert held is not None
        return held.value[:20]

    async with made.running():
        assert await written() == b"k8s:enc:aesgcm:v1:a:"
        for content, prefix in (
            (configuration((["secrets"], [SECOND, FIRST])), b"k8s:enc:aescbc:v1:b:"),
            (b"no configuration", b"k8s:enc:aescbc:v1:b:"),
            (configuration((["secrets"], [IDENTITY, SECOND])), b"value"),
        ):
            path.write_bytes(content)
            await clock.run(RELOAD_SECONDS * 2)
            assert await written() == prefix
    assert _counted(made) == {"success": 2.0, "failure": 1.0}


@async_test
async def test_without_reload_the_file_of_the_start_counts(tmp_path: Path) -> None:
    clock = FakeClock()
    path = file(tmp_path, FIRST)
    made = EncryptionAtRest(path, clock, reloads=False)
    async with made.running():
        path.write_bytes(b"")
        await clock.run(RELOAD_SECONDS * 2)
    assert _counted(made) == {}


def with_plugin(folder: Path, socket: Path, *besides: dict[str, Any], timeout: str = "30s") -> Path:
    plugin = {"kms": {"apiVersion": "v2", "name": "k", "endpoint": f"unix://{socket}", "timeout": timeout}}
    return file(folder, plugin, *besides)


@async_test
async def test_a_start_waits_for_a_plug_in(tmp_path: Path) -> None:
    clock, socket = FakeClock(), tmp_path / "k.sock"
    made = EncryptionAtRest(with_plugin(tmp_path, socket, timeout="200ms"), clock, reloads=False)
    plugin = KMSPlugin()
    assert made.is_probed
    starting = made.running()
    entering = asyncio.ensure_future(starting.__aenter__())
    await clock.until_asleep()
    async with plugin.running(socket):
        while not entering.done():
            if clock.sleepers:
                clock.advance(0.5)
            await asyncio.sleep(0)
        await entering
        await made.check()
        await starting.__aexit__(None, None, None)


@async_test
async def test_a_start_does_not_wait_for_ever(tmp_path: Path) -> None:
    clock = FakeClock()
    made = EncryptionAtRest(with_plugin(tmp_path, tmp_path / "k.sock", timeout="50ms"), clock, reloads=False)
    entering = asyncio.ensure_future(made.running().__aenter__())
    await clock.until_asleep()
    clock.advance(START_SECONDS)
    with pytest.raises(PluginsUnavailable, match="failed to perform status section of the healthz check for KMS"):
        await entering


@async_test
async def test_a_file_whose_plug_in_is_not_there_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    path = file(tmp_path, FIRST)
    made = EncryptionAtRest(path, clock, reloads=True)
    async with made.running():
        with_plugin(tmp_path, tmp_path / "k.sock", FIRST, timeout="50ms")
        await clock.run(RELOAD_SECONDS)
        await clock.until_asleep()
        clock.advance(SWITCH_SECONDS)
        await until(lambda: _counted(made) == {"failure": 1.0})
        transformers = made.encryption.of(KEY)
        assert transformers is not None
        assert transformers.write(b"value", b"").startswith(b"k8s:enc:aesgcm:v1:a:")
        await made.check()


@async_test
async def test_readiness_is_that_of_the_plug_ins_in_use(tmp_path: Path) -> None:
    clock, socket, plugin = FakeClock(), tmp_path / "k.sock", KMSPlugin()
    async with plugin.running(socket):
        made = EncryptionAtRest(with_plugin(tmp_path, socket, FIRST), clock, reloads=True)
        async with made.running():
            await made.check()
            plugin.refuses = {"Status"}
            clock.advance(PROBE_SECONDS)
            with pytest.raises(PluginsUnavailable, match="kms-provider-0: failed to perform status section"):
                await made.check()
            file(tmp_path, FIRST)
            await clock.run(RELOAD_SECONDS)
            await until(lambda: _counted(made) == {"success": 1.0})
            await made.check()


@async_test
async def test_a_plug_in_that_is_away_is_no_reason_for_a_restart(tmp_path: Path) -> None:
    clock, socket, plugin = FakeClock(), tmp_path / "k.sock", KMSPlugin()

    async with plugin.running(socket), Cluster() as cluster:
        client = cluster.client()

        async def probed() -> list[int]:
            paths = ("/readyz", "/healthz", "/readyz/kms-providers", "/livez", "/livez/kms-providers")
            return [(await client.raw("GET", path)).status for path in paths]

        async with EncryptionAtRest(with_plugin(tmp_path, socket), clock, reloads=False).beside(cluster.server.api):
            assert await probed() == [200, 200, 200, 200, 404]
            plugin.refuses = {"Status"}
            clock.advance(PROBE_SECONDS)
            assert await probed() == [500, 500, 500, 200, 404]


def _counted(made: EncryptionAtRest) -> dict[str, float]:
    (family,) = (each for each in made.metrics.collect() if each.name.endswith("automatic_reloads"))
    return {each.labels["status"]: each.value for each in family.samples}
