"""Several people who have to agree: whose word counts, and how many more are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import APPROVE, CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import PeopleBound
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Step, StepResult

RULE = "people"


class Said(msgspec.Struct, frozen=True):
    """What people have said of a request.

    Args:
        approved: the users whose approval counts, each once, sorted.
        denied: the users who have denied.
        passed_over: of each user whose word does not count, why.
    """

    approved: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()


def count(
    approvals: Iterable[CertificateApproval],
    facts: RequestFacts,
    *,
    authors: Collection[str] = (),
    groups: Sequence[str] = (),
) -> Said:
    """Whose word about the request counts.

    Nobody decides about a request of his own, nor by a policy of his own: one person would be enough for what two are
    asked for.

    Args:
        authors: who has written the policy that asks for people.
        groups: of which one has to be the approver's; empty takes anybody who may write approvals.
    """
    approved: set[str] = set()
    denied: set[str] = set()
    passed_over: set[str] = set()
    for each in approvals:
        spec = each.spec
        if spec.request_uid != facts.uid or spec.request_name != facts.name:
            continue
        who = spec.approver
        if who == facts.username:
            passed_over.add(f"{who} is the requester")
        elif who in authors:
            passed_over.add(f"{who} has written the policy")
        elif groups and not set(groups) & set(spec.groups):
            passed_over.add(f"{who} is in none of {', '.join(groups)}")
        else:
            (approved if spec.decision == APPROVE else denied).add(who)
    # Who has said both has changed his mind, and a denial is the safe reading.
    return Said(tuple(sorted(approved - denied)), tuple(sorted(denied)), tuple(sorted(passed_over)))


def look(bound: PeopleBound, said: Said) -> Step:
    """Whether enough have agreed; one who denies is enough against it."""
    expected = f"{bound.approvals} people" if bound.approvals > 1 else "1 person"
    if bound.groups:
        expected += f" of {', '.join(bound.groups)}"
    if said.denied:
        return Step(RULE, StepResult.UNMET, f"denied by {', '.join(said.denied)}", expected)
    got = ", ".join(said.approved) or "nobody"
    if said.passed_over:
        got += f" ({'; '.join(said.passed_over)})"
    enough = len(said.approved) >= bound.approvals
    return Step(RULE, StepResult.MET if enough else StepResult.UNKNOWN, got, expected, ", ".join(said.approved))
