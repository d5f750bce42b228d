"""standalone/shared_pki.py: what all servers of a store share is made once, copied or downloaded, never made twice."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asynctest import async_test
from kubevouch.phases import upload_certs
from kubevouch.phases.certificates import certs
from kubevouch.phases.certificates.certs import CertsError, ControlPlanePKI
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki.control_plane import ControlPlaneNames
from kubevouch.standalone import shared_pki
from kubevouch.standalone.errors import InvalidOptionsError, NotHereError
from kubevouch.storage.interface import Store
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock
from replicas_world import replicas

_KEY = "5e" * 32
_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_NAMES = ControlPlaneNames(node_name="control-plane-1", advertise_address="192.0.2.1")
_SHARED = ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub")


def _made(folder: Path) -> ControlPlanePKI:
    return certs.ensure_control_plane(folder, _NAMES, now=_NOW)


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[Store]:
    """The store of a cluster whose servers have ``folder``, and have uploaded it."""
    clock = FakeClock()
    async with replicas(1, _made(folder), clock) as (server,):
        shared = upload_certs.files(Layout(pki=folder))
        await upload_certs.upload(server.client, shared, bytes.fromhex(_KEY), now=clock.now())
        yield server.link.store


@async_test
async def test_a_cluster_begins_where_it_may() -> None:
    store = MemoryStore()
    await shared_pki.ensure(store, Path("/nonexistent"), "", may_begin=True)
    # Also where kube-apiservers were at work, whose authorities are their operator's.
    await store.create("/registry/namespaces/kube-system", b"k8s\0")
    await shared_pki.ensure(store, Path("/nonexistent"), "", may_begin=True)
    with pytest.raises(NotHereError, match="lacks what all servers share"):
        await shared_pki.ensure(store, Path("/nonexistent"), "", may_begin=False)
    await store.close()


@pytest.mark.parametrize("lost", ["ca.crt", "front-proxy-ca.crt", "sa.key"])
@async_test
async def test_what_is_lost_is_not_made_anew_over_a_running_cluster(tmp_path: Path, lost: str) -> None:
    async with _running(tmp_path / "pki") as store:
        await shared_pki.ensure(store, tmp_path / "pki", "", may_begin=True)
        (tmp_path / "pki" / lost).unlink()
        with pytest.raises(NotHereError, match=f"a running cluster, and .*/pki lacks its {lost}$") as caught:
            await shared_pki.ensure(store, tmp_path / "pki", "", may_begin=True)
        assert "--certificate-key" in caught.value.hint


@async_test
async def test_it_comes_out_of_the_store_under_its_key(tmp_path: Path) -> None:
    async with _running(tmp_path / "pki") as store:
        await shared_pki.ensure(store, tmp_path / "other" / "pki", _KEY, may_begin=False)
        for name in _SHARED:
            there = tmp_path / "other" / "pki" / name
            assert there.read_bytes() == (tmp_path / "pki" / name).read_bytes()
            assert there.stat().st_mode & 0o777 == (0o644 if name.endswith(".crt") else 0o600)
        # Each server makes what is its own.
        assert not (tmp_path / "other" / "pki" / "apiserver.key").exists()
        assert _made(tmp_path / "other" / "pki").ca_certificate == (tmp_path / "pki" / "ca.crt").read_bytes()
        with pytest.raises(CertsError, match=r"error decrypting ca.crt") as wrong:
            await shared_pki.ensure(store, tmp_path / "third", "00" * 32, may_begin=False)
        assert "00" * 32 not in str(wrong.value)
        with pytest.raises(InvalidOptionsError, match="has 3 characters, expected 64 hexadecimal digits"):
            await shared_pki.ensure(store, tmp_path / "third", "abc", may_begin=False)
        assert not (tmp_path / "third").exists()
        # One of another cluster is not mixed with it.
        _made(tmp_path / "foreign")
        (tmp_path / "foreign" / "sa.key").unlink()
        with pytest.raises(CertsError, match="is there and differs from what the control planes share"):
            await shared_pki.ensure(store, tmp_path / "foreign", _KEY, may_begin=False)


@async_test
async def test_nothing_was_uploaded(tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(CertsError, match="it goes after two hours"):
        await shared_pki.ensure(store, tmp_path, _KEY, may_begin=True)
    await store.close()


@async_test
async def test_a_server_with_another_ca_does_not_start_over_the_store(tmp_path: Path) -> None:
    async with _running(tmp_path / "pki") as store:
        with pytest.raises(NotHereError, match="the store is of a cluster with another CA: got sha256:") as caught:
            async with replicas(1, _made(tmp_path / "foreign"), FakeClock(), store=store, offset=1):
                pytest.fail("it has started")
        assert "prefix in etcd" in caught.value.hint
        async with replicas(1, _made(tmp_path / "pki"), FakeClock(), store=store, offset=1) as (again,):
            assert again.is_running
