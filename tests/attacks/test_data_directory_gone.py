"""A data directory that is deleted, moved or replaced under a running server takes no acknowledged write with it.

Files that are open go on working: without a look at the paths joins succeed, `/readyz` says ok, and all of it is lost
when the process ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

import aio
from asynctest import async_test
from fixed_ports import free_port
from kubevouch.ledger.interface import LedgerUnavailable
from kubevouch.ledger.store import SQLiteLedger
from kubevouch.storage.interface import Revision, StoreUnavailable
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from ledger_world import NOW, entry
from processes import KUBEVOUCH, PATIENCE_SECONDS, Up, environment, kubevouch
from running_agent import READY_LINE, RunningAgent
from wire import CSRS, KeptOpen, Reply, Wire

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
FILES = ("", "-wal", "-shm", ".mark", ".lock")


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def token_request() -> dict[str, object]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def certificate_request() -> dict[str, object]:
    """Refused before anybody looks what it asks for."""
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": {}}


def until(kept: KeptOpen, code: int) -> Reply:
    while True:
        answer = kept.request("GET", "/readyz?verbose")
        if answer.code == code:
            return answer


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    """As by a backup that is put back under a server that runs."""
    moved(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def put_back(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name("elsewhere").rename(folder)


@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["one process", "workers"])
@pytest.mark.parametrize("damage", [deleted, moved, replaced])
def test_nothing_is_acknowledged_or_signed_without_the_data_directory(
    tmp_path: Path, damage: Callable[[Path], None], workers: tuple[str, ...]
) -> None:
    folder = tmp_path / "cluster"
    with Up(tmp_path, workers) as up:
        wire = Wire.of_kubeconfig(folder / "admin.conf", tmp_path)
        shutil.copy(folder / "admin.conf", tmp_path / "admin.conf")
        assert wire.json("POST", CONFIG_MAPS, config_map("before")).code == 201
        # With workers each connection may be another one's: this is one of them, and the others look as often.
        with wire.kept_open() as kept:
            assert kept.request("GET", "/readyz").code == 200
            damage(folder)
            assert b"[-]data-directory failed" in until(kept, 500).body
            for path, tree in (
                (CONFIG_MAPS, config_map("after")),
                (TOKENS, token_request()),
                (CSRS, certificate_request()),
            ):
                refused = kept.json("POST", path, tree)
                # Of several workers, one that has not looked yet hears it from the store.
                told = (503, "ServiceUnavailable"), *([(500, "InternalError")] if workers else [])
                assert (refused.code, refused.status.get("reason")) in told, path
                assert str(tmp_path) not in refused.status["message"]
            assert kept.request("GET", CONFIG_MAPS).code == 200
            assert kept.request("GET", "/metrics").code == 200
            status = kubevouch("status", "--kubeconfig", tmp_path / "admin.conf", cwd=tmp_path)
            assert status.code == 2
            assert "NOT READY (the server's data directory was deleted, moved or made read-only" in status.stdout
            if damage is not deleted:
                put_back(folder)
                until(kept, 200)
                # Another worker may have to look yet.
                while kept.json("POST", CONFIG_MAPS, config_map("again")).code != 201:
                    pass
        assert up.end() == 0
        assert "nothing is written or signed until the files are back: move them back" in up.stderr
        assert "Traceback" not in up.stderr
    if damage is not deleted:
        with Up(tmp_path):
            wire = Wire.of_kubeconfig(folder / "admin.conf", tmp_path)
            assert [wire.request("GET", f"{CONFIG_MAPS}/{name}").code for name in ("before", "again")] == [200, 200]


@pytest.mark.parametrize("suffix", FILES)
@async_test
async def test_a_store_acknowledges_no_write_once_a_file_of_it_is_gone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "store.db"
    store = await SQLiteStore.open(path, clock=FakeClock())
    try:
        assert await store.create("/a", b"1") == 2
        file, away = Path(f"{path}{suffix}"), tmp_path / "away"
        os.rename(file, away)
        with pytest.raises(StoreUnavailable, match="expected what this process has open"):
            store.expect_in_place()
        with pytest.raises(StoreUnavailable, match="move them back"):
            await store.expect_writable()
        assert store.statistics().file_bytes >= 0
        os.rename(away, file)
        store.expect_in_place()
        await store.expect_writable()
    finally:
        await store.close()


def test_a_commit_looks_at_the_log_before_anybody_is_told(tmp_path: Path) -> None:
    """Between two looks of the watch a commit finds it by itself: a directory that goes takes the log along."""

    async def scenario() -> None:
        folder = tmp_path / "data"
        store = await SQLiteStore.open(folder / "store.db", clock=FakeClock())
        try:
            assert await store.create("/a", b"1") == 2
            moved(folder)
            for name in ("/b", "/c"):
                with pytest.raises(StoreUnavailable, match="move them back"):
                    await store.create(name, b"1")
            assert await store.get("/a") is not None
            put_back(folder)
            assert await store.create("/d", b"1") == 3
            assert [item.key for item in (await store.list("/")).items] == ["/a", "/d"]
        finally:
            await store.close()
        store = await SQLiteStore.open(folder / "store.db", clock=FakeClock())
        assert await store.revision() == Revision(3)
        await store.close()

    aio.run(scenario())


@async_test
async def test_a_ledger_takes_no_entry_once_its_files_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    ledger = await SQLiteLedger.open(folder / "ledger.db", FakeClock(NOW))
    try:
        assert await ledger.append(entry(0)) == 0
        moved(folder)
        with pytest.raises(LedgerUnavailable, match="expected what this process has open"):
            await ledger.append(entry(1))
        with pytest.raises(LedgerUnavailable):
            ledger.expect_in_place()
        put_back(folder)
        ledger.expect_in_place()
        assert await ledger.append(entry(2)) == 1
    finally:
        await ledger.close()


def ledger_check(port: int) -> bytes:
    http = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        http.request("GET", "/readyz?verbose")
        (line,) = (each for each in http.getresponse().read().splitlines() if b"ledger" in each)
        return line
    finally:
        http.close()


def test_attached_controllers_are_not_ready_without_their_ledger(tmp_path: Path) -> None:
    with Up(tmp_path, ("--controllers=*,-csrsigning,-certificateledger",)):
        pki, port, folder = tmp_path / "cluster/pki", free_port(), tmp_path / "ledger"
        folder.mkdir(mode=0o700)
        process = subprocess.Popen(
            [*KUBEVOUCH, "controllers", "--kubeconfig", tmp_path / "cluster/admin.conf", "--controllers", "csrsigning",
             "--ledger", folder / "ledger.db", "--cluster-signing-cert-file", pki / "ca.crt",
             "--cluster-signing-key-file", pki / "ca.key", "--plain-http", "--bind-address", "127.0.0.1",
             "--secure-port", str(port), "--log-level", "info"],
            cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stderr is not None
            # The ledger is opened before.
            assert any("controller started" in line for line in process.stderr)
            assert ledger_check(port) == b"[+]ledger ok"
            moved(folder)
            assert ledger_check(port) == b"[-]ledger failed: reason withheld"
            put_back(folder)
            assert ledger_check(port) == b"[+]ledger ok"
        finally:
            watchdog.cancel()
            process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)


def test_an_agent_whose_certificates_are_gone_is_not_well(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        assert up.join().code == 0
        folder = tmp_path / "worker-1/var/lib/kubelet/pki"
        with RunningAgent(tmp_path, tmp_path / "worker-1") as agent:
            agent.until(READY_LINE)
            assert agent.command("status").stdout.startswith("node worker-1 is well")
            moved(folder)
            gone = agent.command("status")
            assert gone.code == 1
            assert "kubelet-client-current.pem was deleted or moved: put it back, or join again" in gone.stdout
            put_back(folder)
            assert agent.command("status").stdout.startswith("node worker-1 is well")
