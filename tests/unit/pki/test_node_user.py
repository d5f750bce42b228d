from __future__ import annotations

import pytest

from kubevouch.pki.node_user import checked_node_name, node_name_of


@pytest.mark.parametrize("name", ["a", "worker-1", "a.b-c.d", "0", "a" * 253])
def test_a_node_can_be_called_so(name: str) -> None:
    assert node_name_of(f"system:node:{name}") == checked_node_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", "a" * 254, "A", "a_b", "a..b", ".", "..", "-a", "a-", "a.", "a/b", "a/../b", "a%2fb", "a b", "a\n", "\na",
        "worker-1\nx", "a\0b", "a\u0661", "\u0430", "\uff41", "a\u212a", "*", "a*b", "a:b", "system:node:a",
    ],
)  # fmt: skip
def test_no_node_can_be_called_so(name: str) -> None:
    assert node_name_of(f"system:node:{name}") == checked_node_name(name) == ""


@pytest.mark.parametrize("user", ["", "a", "system:nodes:a", "System:node:a", " system:node:a", "kubernetes-admin"])
def test_other_users(user: str) -> None:
    assert node_name_of(user) == ""
