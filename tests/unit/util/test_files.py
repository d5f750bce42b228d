"""util/files.py: stamps. Locks and atomic writes are tested where they matter, with processes that are killed."""

from __future__ import annotations

from pathlib import Path

from kubevouch.util.files import stamp, write_atomically


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert stamp(path) is None
    write_atomically(path, b"one")
    first = stamp(path)
    assert first is not None and stamp(path) == first
    write_atomically(path, b"two")
    assert stamp(path) not in (first, None)
    path.unlink()
    assert stamp(path) is None
