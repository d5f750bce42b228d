from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.storage.etcd.options import EtcdOptions
from kubevouch.storage.options import EtcdSpec, InvalidStoreSpec, MemorySpec, SQLiteSpec, StoreSpec, parse_store

FOLDER = Path("/data")


def _etcd(*endpoints: str, prefix: str = "/registry") -> EtcdSpec:
    return EtcdSpec(EtcdOptions(endpoints, prefix), FOLDER / "etcd")


@pytest.mark.parametrize(
    ("text", "spec", "shown"),
    [
        ("memory:", MemorySpec(), "memory:"),
        ("sqlite:", SQLiteSpec(Path("/data/kubevouch.db")), "sqlite:/data/kubevouch.db"),
        ("sqlite:/elsewhere/a.db", SQLiteSpec(Path("/elsewhere/a.db")), "sqlite:/elsewhere/a.db"),
        ("sqlite:a.db", SQLiteSpec(Path("a.db")), "sqlite:a.db"),
        ("sqlite:a:b", SQLiteSpec(Path("a:b")), "sqlite:a:b"),
        ("etcd://localhost", _etcd("http://localhost"), "etcd://localhost/registry"),
        ("etcd://a:1,[::1]:2", _etcd("http://a:1", "http://[::1]:2"), "etcd://a:1,[::1]:2/registry"),
        ("etcd://a:1/b/c.d", _etcd("http://a:1", prefix="/b/c.d"), "etcd://a:1/b/c.d"),
    ],
)
def test_store(text: str, spec: StoreSpec, shown: str) -> None:
    assert parse_store(text, FOLDER) == spec
    assert str(spec) == shown
    assert parse_store(shown, FOLDER) == spec


@pytest.mark.parametrize(
    "text",
    [
        "", "memory", "sqlite", "memory:x", "SQLITE:", "etcd:", "/data/a.db", "sqlite:/a/", "sqlite:a\0b", "etcd://",
        "etcd://a:1,", "etcd://a:1/", "etcd://u:p@a:1", "etcd:/a:1", "etcd://http://a:1", "etcd://a:1/b?c", "etcd://a:1\n",
    ],
)  # fmt: skip
def test_what_names_no_store(text: str) -> None:
    with pytest.raises(InvalidStoreSpec) as caught:
        parse_store(text, FOLDER)
    assert str(caught.value) == (
        f"got the store {text!r}, expected memory:, sqlite:PATH or etcd://HOST:PORT,…; "
        "for example sqlite:/var/lib/kubevouch/kubevouch.db or etcd://10.0.0.1:2379,10.0.0.2:2379"
    )


def test_files_for_tls_make_etcd_spoken_to_by_tls() -> None:
    told = EtcdOptions(cafile=Path("ca.crt"))
    assert parse_store("etcd://a:1", FOLDER, told) == EtcdSpec(
        EtcdOptions(("https://a:1",), cafile=Path("ca.crt")), FOLDER / "etcd"
    )
