from __future__ import annotations

from collections.abc import Sequence

import pytest

from asynctest import async_test
from decisions import BOB
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Rule, Rules, Verdict
from kubevouch.authorization.union import UnionAuthorizer

ASKED = Attributes(BOB, "get", path="/x")
ALLOW, DENY, PASS = (Verdict(decision, decision.value) for decision in Decision)


class Says:
    """Answers what it is told to; without a verdict it must not be asked."""

    def __init__(self, verdict: Verdict | None = None, rules: Rules | None = None) -> None:
        self._verdict = verdict
        self._rules = rules or Rules(())

    async def authorize(self, attributes: Attributes) -> Verdict:
        assert attributes == ASKED
        assert self._verdict is not None
        return self._verdict

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:
        assert (user, namespace) == (BOB, "default")
        return self._rules


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ((), Verdict(Decision.NO_OPINION)),
        ((ALLOW, None), ALLOW),
        ((DENY, None), DENY),
        ((PASS, ALLOW, None), ALLOW),
        ((PASS, DENY, None), DENY),
        ((PASS, PASS), Verdict(Decision.NO_OPINION, "no opinion\nno opinion")),
        (
            (Verdict(Decision.NO_OPINION, "a"), Verdict(Decision.NO_OPINION), Verdict(Decision.NO_OPINION, "b")),
            Verdict(Decision.NO_OPINION, "a\nb"),
        ),
        ((Verdict(Decision.NO_OPINION, error="broken"),), Verdict(Decision.NO_OPINION, error="broken")),
        (
            (Verdict(Decision.NO_OPINION, error="x"), Verdict(Decision.NO_OPINION, error="y")),
            Verdict(Decision.NO_OPINION, error="[x, y]"),
        ),
        ((Verdict(Decision.NO_OPINION, error="broken"), ALLOW), ALLOW),
    ],
)
@async_test
async def test_first_decision_counts(said: Sequence[Verdict | None], decided: Verdict) -> None:
    assert await UnionAuthorizer([Says(verdict) for verdict in said]).authorize(ASKED) == decided


@async_test
async def test_rules_of_all_resolvers() -> None:
    one, two = Rule(("get",), ("",), ("pods",)), Rule(("*",), non_resource_urls=("/x",))
    union = UnionAuthorizer([], [Says(rules=Rules((one,))), Says(rules=Rules((two,), True, "some are unknown"))])
    assert await union.rules_for(BOB, "default") == Rules((one, two), True, "some are unknown")
    assert await UnionAuthorizer([]).rules_for(BOB, "default") == Rules(())


@async_test
async def test_others_are_asked_from_the_next_request_on() -> None:
    allowed = Rule(("get",), ("",), ("pods",))
    union = UnionAuthorizer([Says(ALLOW)], [Says(rules=Rules((allowed,)))])
    assert await union.authorize(ASKED) == ALLOW
    union.replace([Says(DENY)], [])
    assert await union.authorize(ASKED) == DENY
    assert await union.rules_for(BOB, "default") == Rules(())
