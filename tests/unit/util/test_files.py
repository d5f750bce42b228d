"""util/files.py: stamps. Locks and atomic writes are tested where they matter, with processes that are killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubevouch.util.files import UnsafeFileError, read_public, stamp, write_atomically


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


def test_what_is_public_is_read_through_a_link_and_from_nothing_but_a_file(tmp_path: Path) -> None:
    (tmp_path / "dated.pem").write_bytes(b"12345")
    link = tmp_path / "current.pem"
    link.symlink_to("dated.pem")
    assert (read_public(link, 100), read_public(link, 3)) == (b"12345", b"123")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsafeFileError):
        read_public(tmp_path / "pipe", 100)
    with pytest.raises(IsADirectoryError):
        read_public(tmp_path, 100)
    link.unlink()
    with pytest.raises(FileNotFoundError):
        read_public(link, 100)
