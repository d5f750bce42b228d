"""kubevouch store rewrite: what it says, and what it ends with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from encryption_world import IDENTITY, KEY_1, KEY_2, configuration, encryption, keys
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import run
from kubevouch.storage.encryption.store import EncryptedStore
from kubevouch.storage.sqlite.store import SQLiteStore
from kubevouch.util.clock import SystemClock

FIRST, SECOND = keys("aesgcm", ("a", KEY_1)), keys("aescbc", ("b", KEY_2))


async def _fill(path: Path, value: bytes = b"value") -> None:
    store = EncryptedStore(
        await SQLiteStore.open(path, clock=SystemClock()), encryption((["secrets"], [FIRST]))
    )  # fmt: skip
    for name in ("one", "two"):
        await store.create(f"/registry/secrets/default/{name}", value)
    await store.close()


def rewrite(folder: Path, *providers: dict[str, Any]) -> int:
    (folder / "config.json").write_bytes(configuration((["secrets"], providers)))
    (folder / "config.json").chmod(0o600)
    return run(
        ["store", "rewrite", f"{folder}/store.db", "--encryption-provider-config", f"{folder}/config.json"]
    )  # fmt: skip


def test_a_rotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_fill(tmp_path / "store.db"))
    assert rewrite(tmp_path, SECOND, FIRST) == ExitCode.DONE
    assert f"2 of 2 values rewritten in {tmp_path}/store.db, now at revision 5" in capsys.readouterr().out
    assert rewrite(tmp_path, IDENTITY, FIRST) == ExitCode.FAILED
    said = capsys.readouterr()
    assert "  /registry/secrets/default/one: no matching prefix found\n" in said.out
    assert said.err == (
        f"error: {tmp_path}/store.db holds 2 values that cannot be decrypted\nhint: give the configuration their keys\n"
    )


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewrite(tmp_path, FIRST) == ExitCode.FAILED
    assert f"o such file or directory for {tmp_path}/store.db" in capsys.readouterr().err
    asyncio.run(_fill(tmp_path / "store.db"))
    assert rewrite(tmp_path) == ExitCode.INVALID
    assert "resources[0].providers: Required value" in capsys.readouterr().err

    async def in_use() -> int:
        store = await SQLiteStore.open(tmp_path / "store.db", clock=SystemClock())
        try:
            return await asyncio.to_thread(rewrite, tmp_path, SECOND, FIRST)
        finally:
            await store.close()

    assert asyncio.run(in_use()) == ExitCode.PREFLIGHT
    assert "hint: stop its server first, or let kubectl get and kubectl replace" in capsys.readouterr().err


def test_what_is_encrypted_is_shown_to_who_has_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_fill(tmp_path / "store.db", b'{"apiVersion":"v1","kind":"Secret","data":{"k":"aHVzaA=="}}'))
    config = tmp_path / "config.json"
    config.write_bytes(configuration((["secrets"], [FIRST])))
    config.chmod(0o600)
    look = ["store", "inspect", "secrets/default/one", "--store", f"{tmp_path}/store.db"]
    assert run([*look, "-o", "json"]) == ExitCode.FAILED
    assert "hint: --encryption-provider-config FILE decrypts it" in capsys.readouterr().err
    with_key = [*look, "--encryption-provider-config", str(config)]
    assert run([*with_key, "-o", "json"]) == ExitCode.DONE
    assert '"k": "(hidden)"' in capsys.readouterr().out
    assert run([*with_key, "--show-secrets"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "k: aHVzaA==" in shown and "encrypted, aesgcm v1 a, " in shown
    config.write_bytes(configuration((["secrets"], [SECOND])))
    assert run(with_key) == ExitCode.FAILED
    assert "got a value that cannot be decrypted: no matching prefix found" in capsys.readouterr().err
    config.write_bytes(b"{}")
    assert run(with_key) == ExitCode.INVALID
