"""client/headers.py."""

from __future__ import annotations

import pytest

from kubevouch.client import headers
from kubevouch.client.options import Impersonation


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (['299 - "unknown field \\"x\\""'], ['unknown field "x"']),
        (['299 - "a", 299 kube "b\\\\c"', '299 - "a"'], ["a", "b\\c"]),
        (['299 - "a" "Sat, 21 Nov 2026 12:00:00 GMT", 299 - "b"'], ["a", "b"]),
        (['199 - "other code"'], []),
        (["nonsense", '299 - "open'], []),
        ([], []),
    ],
)
def test_warnings(values: list[str], texts: list[str]) -> None:
    assert headers.warnings(values) == texts


def test_impersonation() -> None:
    who = Impersonation("a", "u-1", ("g", "system:masters"), {"example.com/Key%": ("v", "w")})
    assert list(headers.impersonation(who)) == [
        ("Impersonate-User", "a"), ("Impersonate-Group", "g"), ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Extra-example.com%2FKey%25", "v"), ("Impersonate-Extra-example.com%2FKey%25", "w"),
    ]  # fmt: skip


def test_impersonation_cannot_smuggle_headers() -> None:
    with pytest.raises(ValueError, match="Impersonate-Group"):
        list(headers.impersonation(Impersonation("a", groups=("x\r\nImpersonate-Group: system:masters",))))
