"""Whose approval of a request counts: nobody's of his own, nor by a policy of his own, and each one's once."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    REQUIRE,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PeopleBound,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.guards import AUTHORS_ANNOTATION
from kubevouch.cel.environment import Budget
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.policy import people
from kubevouch.policy.certificate_policies import Known, compile_policy, decide, look
from kubevouch.policy.expressions import REQUEST_BUDGET, Surroundings
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.people import Said, count
from kubevouch.policy.verdict import Outcome, Verdict

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
FACTS = RequestFacts(
    name="csr-1", uid="u-1", signer_name="example.com/a", username="rita", key_fingerprint="00", key_algorithm="ECDSA"
)


def says(
    approver: str, decision: str = "Approve", *groups: str, name: str = "csr-1", uid: str = "u-1"
) -> CertificateApproval:
    return CertificateApproval(
        spec=CertificateApprovalSpec(
            request_name=name, request_uid=uid, approver=approver, decision=decision, groups=list(groups)
        )
    )


@pytest.mark.parametrize(
    ("approvals", "expected"),
    [
        ([], Said()),
        ([says("ann"), says("bob")], Said(("ann", "bob"))),
        ([says("ann"), says("ann")], Said(("ann",))),
        ([says("ann", uid="u-0"), says("bob", name="csr-2")], Said()),
        ([says("rita"), says("ann")], Said(("ann",), (), ("rita is the requester",))),
        ([says("paul"), says("ann")], Said(("ann",), (), ("paul has written the policy",))),
        ([says("ann"), says("bob", "Deny")], Said(("ann",), ("bob",))),
        ([says("bob"), says("bob", "Deny")], Said((), ("bob",))),
        ([says("rita", "Deny")], Said((), (), ("rita is the requester",))),
    ],
)
def test_whose_word_counts(approvals: list[CertificateApproval], expected: Said) -> None:
    assert count(approvals, FACTS, authors={"paul"}) == expected


def test_groups_of_which_the_approver_has_to_be_in_one() -> None:
    approvals = [says("ann", "Approve", "security"), says("bob", "Approve", "users"), says("eve")]
    said = count(approvals, FACTS, groups=["security", "admins"])
    assert said.approved == ("ann",)
    assert said.passed_over == ("bob is in none of security, admins", "eve is in none of security, admins")


@pytest.mark.parametrize(
    ("who", "own"),
    [
        ("system:serviceaccount:ci:bot", "system:serviceaccounts:ci"),
        ("system:node:n1", "system:nodes"),
        ("system:bootstrap:abcdef", "system:bootstrappers:rack"),
    ],
)
def test_machines_are_no_people_unless_a_group_of_theirs_is_named(who: str, own: str) -> None:
    vote = says(who, "Approve", own, "security", "system:authenticated")
    for groups in ([], ["security"], ["system:authenticated"], ["security", f"{own}x"]):
        said = count([vote], FACTS, groups=groups)
        assert said.approved == () and "names none of its groups" in said.passed_over[0]
    assert count([vote], FACTS, groups=["security", own]).approved == (who,)
    # What a person claims to be in is no machine's.
    assert count([says("ann", "Approve", own)], FACTS, groups=[own]).approved == ("ann",)


def test_a_vote_that_is_void_is_told_with_why() -> None:
    vote = msgspec.structs.replace(says("ann"), metadata=ObjectMeta(name="v1"))
    other = msgspec.structs.replace(says("ann"), metadata=ObjectMeta(name="v2"))
    void = {"v1": "is revoked"}
    assert count([vote], FACTS, void=void) == Said((), (), ("ann is revoked",))
    assert count([vote, other], FACTS, void=void).approved == ("ann",)
    denied = msgspec.structs.replace(says("ann", "Deny"), metadata=ObjectMeta(name="v1"))
    assert count([denied], FACTS, void=void).denied == ()


def decided(effect: str, *approvals: CertificateApproval, authors: str = "") -> Verdict:
    """Of a policy that asks for two people and for nothing else that the request does not have."""
    metadata = ObjectMeta(name="two", annotations={AUTHORS_ANNOTATION: authors})
    spec = CertificateRequestPolicySpec(
        effect=effect,
        selector=PolicySelector(signer_names=["example.com/a"]),
        usages=["client auth"],
        people=PeopleBound(approvals=2),
    )
    policy = compile_policy(CertificateRequestPolicy(metadata=metadata, spec=spec))
    known = Known(around=Surroundings(now=NOW), approvals=approvals)
    asked = msgspec.structs.replace(FACTS, usages=("client auth",))
    return decide(policy, look(policy, asked, known, Budget(REQUEST_BUDGET)), may_use=True)


@pytest.mark.parametrize(
    ("effect", "said", "authors", "outcome", "blocks"),
    [
        (APPROVE, "ann", "", Outcome.NO_OPINION, False),
        (APPROVE, "ann bob", "", Outcome.APPROVE, False),
        (APPROVE, "ann bob", "bob\neve", Outcome.NO_OPINION, False),
        (REQUIRE, "ann", "", Outcome.NO_OPINION, True),
        (REQUIRE, "ann bob", "", Outcome.NO_OPINION, False),
        (REQUIRE, "ann !bob", "", Outcome.DENY, False),
        (APPROVE, "ann bob !eve", "", Outcome.NO_OPINION, False),
    ],
)
def test_what_follows_from_what_people_say(
    effect: str, said: str, authors: str, outcome: Outcome, blocks: bool
) -> None:
    approvals = [says(each.strip("!"), "Deny" if each[0] == "!" else "Approve") for each in said.split()]
    verdict = decided(effect, *approvals, authors=authors)
    assert (verdict.outcome, verdict.blocks) == (outcome, blocks)


@pytest.mark.parametrize(
    ("said", "result", "got"),
    [
        (Said(), "unknown", "nobody"),
        (Said(("ann",), (), ("rita is the requester",)), "unknown", "ann (rita is the requester)"),
        (Said(("ann", "bob")), "met", "ann, bob"),
        (Said(("ann", "bob"), ("eve",)), "unmet", "denied by eve"),
    ],
)
def test_enough_have_to_agree_and_one_is_enough_against_it(said: Said, result: str, got: str) -> None:
    step = people.look(PeopleBound(approvals=2), said)
    assert (step.result, step.got, step.expected) == (result, got, "2 people")
