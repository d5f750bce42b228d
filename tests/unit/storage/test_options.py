from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.storage.options import InvalidStoreSpec, MemorySpec, SQLiteSpec, parse_store

FOLDER = Path("/data")


@pytest.mark.parametrize(
    ("text", "spec", "shown"),
    [
        ("memory:", MemorySpec(), "memory:"),
        ("sqlite:", SQLiteSpec(Path("/data/kubevouch.db")), "sqlite:/data/kubevouch.db"),
        ("sqlite:/elsewhere/a.db", SQLiteSpec(Path("/elsewhere/a.db")), "sqlite:/elsewhere/a.db"),
        ("sqlite:a.db", SQLiteSpec(Path("a.db")), "sqlite:a.db"),
        ("sqlite:a:b", SQLiteSpec(Path("a:b")), "sqlite:a:b"),
    ],
)
def test_store(text: str, spec: MemorySpec | SQLiteSpec, shown: str) -> None:
    assert parse_store(text, FOLDER) == spec
    assert str(spec) == shown
    assert parse_store(shown, FOLDER) == spec


@pytest.mark.parametrize(
    "text", ["", "memory", "sqlite", "memory:x", "SQLITE:", "etcd:", "/data/a.db", "sqlite:/a/", "sqlite:a\0b"]
)
def test_what_names_no_store(text: str) -> None:
    with pytest.raises(InvalidStoreSpec) as caught:
        parse_store(text, FOLDER)
    assert str(caught.value) == (
        f"got the store {text!r}, expected memory: or sqlite:PATH; for example sqlite:/var/lib/kubevouch/kubevouch.db"
    )
