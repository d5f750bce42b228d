"""``kubevouch restore``, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import aio
from kubevouch.cli.main import run
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_old_server_is_to_be_stopped_first(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    (folder / "pki").mkdir(parents=True)

    async def fill() -> None:
        store = await SQLiteStore.open(folder / "kubevouch.db", clock=FakeClock())
        await store.create("/k", b"value")
        await store.close()

    aio.run(fill())
    assert run(["backup", str(tmp_path / "b.tar"), "--data-dir", str(folder)]) == 0
    assert "still runs" not in capsys.readouterr().err
    assert run(["restore", str(tmp_path / "b.tar"), "--data-dir", str(tmp_path / "other"), "-o", output]) == 0
    said = capsys.readouterr().err
    assert "warning: if the server that the backup was made from still runs, stop it before you start this one" in said
