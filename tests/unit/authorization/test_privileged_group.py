from __future__ import annotations

import pytest

from asynctest import async_test
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.privileged_group import PrivilegedGroupAuthorizer


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        (UserInfo("root", groups=("system:masters",)), True),
        (UserInfo("root", groups=("system:authenticated", "system:masters")), True),
        (UserInfo("root", groups=("system:masters2", "System:masters", "system:master")), False),
        (UserInfo("system:masters"), False),
        (UserInfo("root", uid="system:masters", extra={"groups": ("system:masters",)}), False),
    ],
)
@pytest.mark.parametrize(
    "question", [("escalate", "rbac.authorization.k8s.io", "v1", "clusterroles"), ("get", "", "", "", "", "", "", "/x")]
)
@async_test
async def test_members_may_do_everything_and_nobody_is_denied(
    user: UserInfo, allowed: bool, question: tuple[str, ...]
) -> None:
    verdict = await PrivilegedGroupAuthorizer().authorize(Attributes(user, *question))
    assert verdict.decision is (Decision.ALLOW if allowed else Decision.NO_OPINION)
    assert verdict.reason == ""


@async_test
async def test_another_group() -> None:
    authorizer = PrivilegedGroupAuthorizer("wheel")
    member, master = UserInfo("a", groups=("wheel",)), UserInfo("b", groups=("system:masters",))
    assert (await authorizer.authorize(Attributes(member, "get"))).decision is Decision.ALLOW
    assert (await authorizer.authorize(Attributes(master, "get"))).decision is Decision.NO_OPINION
