"""A cluster whose every object is encrypted: what lies in its file, what a second start finds, also without the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, keys
from kms_plugin import KMSPlugin
from kubevouch.api.catalog import CONFIG_MAPS, SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.standalone.encryption_options import EncryptionOptions
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import running
from kubevouch.storage.sqlite.place import SQLitePlace
from kubevouch.util.clock import SystemClock

FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aescbc", ("b", KEY_2))
CLOCK = SystemClock()


def options(folder: Path, *entries: Any, allow_cleartext: bool = False) -> StandaloneOptions:
    path = folder / "encryption.json"
    path.write_bytes(configuration(*entries))
    path.chmod(0o600)
    return StandaloneOptions(
        data_dir=folder / "cluster",
        bind_address="127.0.0.1",
        secure_port=0,
        controllers=("bootstrapsigner",),
        encryption=EncryptionOptions(path, allow_cleartext=allow_cleartext),
    )


@async_test
async def test_everything_is_encrypted_and_found_again(tmp_path: Path) -> None:
    plugin = KMSPlugin()
    kms = {"kms": {"apiVersion": "v2", "name": "k", "endpoint": f"unix://{tmp_path / 'k.sock'}"}}
    told = options(tmp_path, (["secrets"], [FIRST]), (["*.*"], [kms]))
    async with plugin.running(tmp_path / "k.sock"):
        async with running(told, CLOCK) as cluster:
            assert cluster.tokens is not None
            tokens = cluster.tokens.discovery.text, cluster.tokens.authentication.text
        async with SQLitePlace(tmp_path / "cluster" / "kubevouch.db").snapshot(CLOCK) as snapshot:
            values = {each.key: each.value async for batch in snapshot.batches() for each in batch}
        assert len(values) > 100
        for key, value in values.items():
            by_file = key.startswith("/registry/secrets/")
            assert value.startswith(b"k8s:enc:aesgcm:v1:a:" if by_file else b"k8s:enc:kms:v2:k:"), key
        on_disk = b"".join(each.read_bytes() for each in (tmp_path / "cluster").glob("kubevouch.db*"))
        for secret in (*(each.partition(".")[2] for each in tokens), "-----BEGIN CERTIFICATE", "system:masters"):
            assert secret.encode() not in on_disk
        async with running(told, CLOCK) as cluster:
            assert cluster.tokens is not None
            assert tokens == (cluster.tokens.discovery.text, cluster.tokens.authentication.text)
    assert plugin.calls.count("Encrypt") == 2  # one seed for each start


@async_test
async def test_without_the_key_nothing_is_taken_for_new(tmp_path: Path) -> None:
    async with running(options(tmp_path, (["secrets", "configmaps"], [FIRST])), CLOCK) as cluster:
        secret = Secret(metadata=ObjectMeta(name="a", namespace="default"), data={"k": b"v"})
        await cluster.server.client.create(SECRETS, secret)
    with pytest.raises(APIStatusError, match="no matching prefix found"):
        async with running(options(tmp_path, (["secrets", "configmaps"], [SECOND])), CLOCK):
            pass
    # With the key everything is as it was; without that of Secrets alone the rest goes on.
    told = options(tmp_path, (["configmaps"], [IDENTITY, FIRST]), (["secrets"], [SECOND]), allow_cleartext=True)
    async with running(told, CLOCK) as cluster:
        client = cluster.server.client
        assert (await client.get(CONFIG_MAPS, "cluster-info", "kube-public")).data
        with pytest.raises(APIStatusError, match=r"Key: /registry/secrets/default/a, .*no matching prefix found"):
            await client.get(SECRETS, "a", "default")
