from __future__ import annotations

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.authentication.node_identifier import node_name_of


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("system:node:a", ("system:nodes",), "a"),
        ("system:node:a.b", ("x", "system:nodes"), "a.b"),
        ("system:node:", ("system:nodes",), ""),
        ("system:node:a", ("system:authenticated",), None),
        ("alice", ("system:nodes",), None),
        ("xsystem:node:a", ("system:nodes",), None),
    ],
)
def test_name_and_group_have_to_agree(name: str, groups: tuple[str, ...], expected: str | None) -> None:
    assert node_name_of(UserInfo(name, groups=groups)) == expected
