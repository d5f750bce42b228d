from __future__ import annotations

import pytest

from asynctest import async_test
from decisions import BOB, rights_of
from kubevouch.admission.signer_permission import may_use_signer
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Verdict

SIGNER = "example.com/fleet"


def approve(*names: str, group: str = "certificates.k8s.io", resource: str = "signers") -> PolicyRule:
    return PolicyRule(verbs=["approve"], api_groups=[group], resources=[resource], resource_names=list(names))


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (approve(SIGNER), True),
        (approve(), True),
        (approve("example.com/*"), True),
        (approve("example.com/fleet2"), False),
        (approve("example.com"), False),
        (approve("example.com/flee*"), False),
        (approve("*"), False),
        (approve("com/*"), False),
        (approve("*/fleet"), False),
        (approve(SIGNER, group=""), False),
        (approve(SIGNER, resource="signers/approve"), False),
        (approve(SIGNER, resource="certificatesigningrequests"), False),
    ],
)
@async_test
async def test_name_or_whole_domain_is_granted(rule: PolicyRule, allowed: bool) -> None:
    assert await may_use_signer(rights_of(BOB, rule), BOB, "approve", SIGNER) is allowed


@async_test
async def test_the_domain_ends_at_the_first_slash() -> None:
    deep = "example.com/fleet/blue"
    assert await may_use_signer(rights_of(BOB, approve("example.com/*")), BOB, "approve", deep)
    assert not await may_use_signer(rights_of(BOB, approve("example.com/fleet/*")), BOB, "approve", deep)


@async_test
async def test_one_verb_does_not_stand_for_another() -> None:
    authorizer = rights_of(BOB, approve())
    assert not await may_use_signer(authorizer, BOB, "sign", SIGNER)
    assert not await may_use_signer(authorizer, UserInfo("alice"), "approve", SIGNER)


class Answering:
    """An authorizer that always gives one verdict and keeps what it was asked."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[Attributes] = []

    async def authorize(self, attributes: Attributes) -> Verdict:
        self.asked.append(attributes)
        return self.verdict


@pytest.mark.parametrize(
    "verdict", [Verdict(Decision.DENY), Verdict(Decision.NO_OPINION), Verdict(Decision.NO_OPINION, error="broken")]
)
@async_test
async def test_questions_are_kubernetes_own_and_only_allow_allows(verdict: Verdict) -> None:
    authorizer = Answering(verdict)
    assert not await may_use_signer(authorizer, BOB, "sign", SIGNER)
    asked = [Attributes(BOB, "sign", "certificates.k8s.io", "*", "signers", name=n) for n in (SIGNER, "example.com/*")]
    assert authorizer.asked == asked


@async_test
async def test_second_question_is_not_asked_in_vain() -> None:
    authorizer = Answering(Verdict(Decision.ALLOW))
    assert await may_use_signer(authorizer, BOB, "sign", SIGNER)
    assert [question.name for question in authorizer.asked] == [SIGNER]
