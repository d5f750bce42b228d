from __future__ import annotations

import pytest

from kubevouch.authentication.group_adder import with_authenticated_group
from kubevouch.authentication.interface import Authentication, UserInfo


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("alice", (), ("system:authenticated",)),
        ("alice", ("z", "a"), ("z", "a", "system:authenticated")),
        ("alice", ("system:authenticated", "a"), ("system:authenticated", "a")),
        ("alice", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ()),
    ],
)
def test_group_is_added_once_and_last(name: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    user = UserInfo(name, "u", before, {"k": ("v",)})
    found = with_authenticated_group(Authentication(user, "x509", ("careful",), ("here",)))
    assert found == Authentication(UserInfo(name, "u", after, {"k": ("v",)}), "x509", ("careful",), ("here",))
