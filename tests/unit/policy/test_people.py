"""Whose approval of a request counts: nobody's of his own, nor by a policy of his own, and each one's once."""

from __future__ import annotations

import pytest

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import CertificateApproval, CertificateApprovalSpec
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.people import Said, count

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
