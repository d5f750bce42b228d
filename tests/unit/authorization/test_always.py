from __future__ import annotations

from asynctest import async_test
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.always import AlwaysDenyAuthorizer, InsecureAlwaysAllowAuthorizer
from kubevouch.authorization.interface import Attributes, Decision, Rule
from kubevouch.testing.logs import capture_logs

ANYBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))
ASKED = Attributes(ANYBODY, "delete", "", "v1", "secrets", namespace="default")


@async_test
async def test_always_allow_says_so_each_time() -> None:
    with capture_logs() as logged:
        for _ in range(2):
            assert (await InsecureAlwaysAllowAuthorizer().authorize(ASKED)).decision is Decision.ALLOW
    assert [(entry["log_level"], entry["user"], entry["verb"], entry["resource"]) for entry in logged] == [
        ("warning", "system:anonymous", "delete", "secrets")
    ] * 2


@async_test
async def test_always_allow_lists_everything() -> None:
    listed = await InsecureAlwaysAllowAuthorizer().rules_for(ANYBODY, "default")
    assert listed.rules == (Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",)))
    assert not listed.incomplete


@async_test
async def test_always_deny_abstains() -> None:
    verdict = await AlwaysDenyAuthorizer().authorize(ASKED)
    assert (verdict.decision, verdict.reason) == (Decision.NO_OPINION, "Everything is forbidden.")
    assert (await AlwaysDenyAuthorizer().rules_for(ANYBODY, "default")).rules == ()
