"""Which versions of etcd are believed when they tell of progress."""

from __future__ import annotations

import pytest

from kubevouch.storage.etcd.upstream import tells_progress


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("3.4.23", False), ("3.4.30", False), ("3.4.31", True), ("3.4.100", True),
        ("3.5.0", False), ("3.5.1", False), ("3.5.12", False), ("3.5.13", True), ("3.5.21", True),
        ("3.6.0", True), ("3.6.0-rc.1", True), ("3.10.2", True), ("4.0.0", True),
        ("3.3.99", False), ("2.3.8", False), ("", False), ("unknown", False), ("3.6", False),
    ],
)  # fmt: skip
def test_versions(version: str, told: bool) -> None:
    """kube-apiserver's rule: 3.4.31 in that line, 3.5.13, and whatever came later."""
    assert tells_progress(version) is told
