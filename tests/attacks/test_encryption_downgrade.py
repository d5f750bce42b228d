"""A file that no longer encrypts: what was stored encrypted is not stored in clear text before somebody says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, keys
from kubevouch.standalone.api_server import server_settings
from kubevouch.standalone.encryption import RELOAD_SECONDS, EncryptionAtRest, at_rest
from kubevouch.standalone.encryption_options import RECORD, EncryptionOptions
from kubevouch.standalone.encryption_record import EncryptionRecord, EncryptionWeakened
from kubevouch.standalone.errors import InvalidOptionsError
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.memory import MemoryStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs

SECRET, EVENT = "/registry/secrets/default/one", "/registry/events/default/one"
FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aesgcm", ("b", KEY_2))
Entry = tuple[list[str], list[dict[str, Any]]]
ENCRYPTED: Entry = (["secrets"], [FIRST, IDENTITY])
DOWNGRADES: dict[str, tuple[list[Entry], list[Entry], list[str]]] = {
    "identity first": ([ENCRYPTED], [(["secrets"], [IDENTITY, FIRST])], ["secrets"]),
    "the provider removed": ([ENCRYPTED], [(["secrets"], [IDENTITY])], ["secrets"]),
    "the entry removed": ([ENCRYPTED, (["configmaps"], [FIRST])], [(["configmaps"], [FIRST])], ["secrets"]),
    "a pattern narrowed": ([(["*."], [FIRST])], [(["secrets"], [FIRST])], ["*."]),
    "an exception before a pattern": (
        [(["*.*"], [FIRST])], [(["secrets"], [IDENTITY, FIRST]), (["*.*"], [FIRST])], ["secrets"],
    ),
    "an earlier entry of the same name": ([ENCRYPTED], [(["secrets"], [IDENTITY]), ENCRYPTED], ["secrets"]),
}  # fmt: skip
CHANGES: dict[str, tuple[list[Entry], list[Entry]]] = {
    "another key": ([ENCRYPTED], [(["secrets"], [SECOND, FIRST])]),
    "a wider pattern": ([ENCRYPTED], [(["*."], [FIRST])]),
    "more resources": ([ENCRYPTED], [ENCRYPTED, (["configmaps"], [FIRST])]),
    "what was in clear text stays so": (
        [(["events"], [IDENTITY]), (["*.*"], [FIRST])], [(["events"], [IDENTITY, SECOND]), (["*.*"], [SECOND, FIRST])],
    ),
}  # fmt: skip


def written(path: Path, entries: list[Entry]) -> Path:
    path.write_bytes(configuration(*entries))
    path.chmod(0o600)
    return path


def made(folder: Path, path: Path, clock: FakeClock, *, allow_cleartext: bool = False) -> EncryptionAtRest:
    record = EncryptionRecord(folder, allow_cleartext=allow_cleartext)
    encryption = at_rest(EncryptionOptions(path, automatic_reload=True), clock, record=record)
    assert encryption is not None
    return encryption


@asynccontextmanager
async def served(encryption: EncryptionAtRest) -> AsyncIterator[EncryptionAtRest]:
    """As by a server that has started."""
    async with encryption.running():
        encryption.remember()
        yield encryption


@pytest.mark.parametrize("name", DOWNGRADES)
@async_test
async def test_no_downgrade_is_taken_at_a_reload_or_a_start(tmp_path: Path, name: str) -> None:
    before, after, resources = DOWNGRADES[name]
    clock, memory, path = FakeClock(), MemoryStore(), written(tmp_path / "file", before)
    running = made(tmp_path, path, clock)
    async with served(running):
        store = EncryptedStore(memory, running.encryption)
        written(path, after)
        with capture_logs() as lines:
            await clock.run(RELOAD_SECONDS * 2)
        # 1. The server goes on with the former file, and says which resources it is about.
        (line,) = (each for each in lines if each["log_level"] == "error")
        assert "the former one stays" in line["event"] and ", ".join(resources) in line["err"]
        await store.create(SECRET, b"secret")
        held = await memory.get(SECRET)
        assert held is not None and held.value.startswith(b"k8s:enc:aesgcm:v1:a:")
    # 2. The next start is refused, with what to do.
    with pytest.raises(EncryptionWeakened) as refused:
        made(tmp_path, path, clock)
    assert refused.value.resources == resources and "--encryption-allow-cleartext" in refused.value.hint
    # 3. Who means it says so, once; and it is said loudly.
    with capture_logs() as lines:
        async with served(made(tmp_path, path, clock, allow_cleartext=True)):
            pass
    (line,) = (each for each in lines if each["log_level"] == "warning")
    assert line["resources"] == resources
    async with served(made(tmp_path, path, clock)):
        pass


@pytest.mark.parametrize("name", CHANGES)
@async_test
async def test_a_change_that_encrypts_as_much_is_taken(tmp_path: Path, name: str) -> None:
    before, after = CHANGES[name]
    clock, path = FakeClock(), written(tmp_path / "file", before)
    running = made(tmp_path, path, clock)
    async with served(running):
        former = running.encryption.of(SECRET)
        written(path, after)
        await clock.run(RELOAD_SECONDS * 2)
        assert running.encryption.of(SECRET) is not former
    async with served(made(tmp_path, path, clock)):
        pass


@async_test
async def test_a_start_without_the_flag_is_refused(tmp_path: Path) -> None:
    async with served(made(tmp_path, written(tmp_path / "file", [ENCRYPTED]), FakeClock())):
        pass
    options = StandaloneOptions(data_dir=tmp_path)
    with pytest.raises(EncryptionWeakened, match="secrets would be stored in clear text from now on"):
        server_settings(options, FakeClock())
    allowed = StandaloneOptions(data_dir=tmp_path, encryption=EncryptionOptions(allow_cleartext=True))
    settings = server_settings(allowed, FakeClock())
    # Nothing is touched before the directory is this server's.
    assert json.loads((tmp_path / RECORD).read_bytes()) == {"secrets": True}
    assert settings.encrypted_before is not None
    settings.encrypted_before.keep({})
    assert server_settings(options, FakeClock()).encryption is None


@async_test
async def test_a_start_that_fails_changes_no_record(tmp_path: Path) -> None:
    """As one that is allowed to store in clear text, and lacks the key of what is stored."""
    path = written(tmp_path / "file", [ENCRYPTED])
    async with served(made(tmp_path, path, FakeClock())):
        pass
    written(path, [(["secrets"], [IDENTITY])])
    async with made(tmp_path, path, FakeClock(), allow_cleartext=True).running():
        pass  # and it ends before it has served anything
    with pytest.raises(EncryptionWeakened):
        made(tmp_path, path, FakeClock())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"1"])
def test_a_damaged_record_is_no_reason_to_store_in_clear_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RECORD).write_bytes(content)
    with pytest.raises(InvalidOptionsError, match="cannot be read"):
        server_settings(StandaloneOptions(data_dir=tmp_path), FakeClock())


def test_a_cluster_from_before_goes_on_as_it_was(tmp_path: Path) -> None:
    """Without a record, what the file says counts: a migration to clear text that is under way is not stopped."""
    path = written(tmp_path / "file", [(["secrets"], [IDENTITY, FIRST])])
    assert made(tmp_path, path, FakeClock()).encryption.of(EVENT) is None
