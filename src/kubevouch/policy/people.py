"""Several people who have to agree: whose word counts, and how many more are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import APPROVE, CertificateApproval
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import PeopleBound
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.verdict import Step, StepResult
from kubevouch.wellknown import (
    BOOTSTRAP_USER_PREFIX,
    BOOTSTRAPPERS_GROUP,
    NODE_USER_PREFIX,
    NODES_GROUP,
    SERVICE_ACCOUNT_USER_PREFIX,
    SERVICE_ACCOUNTS_GROUP,
)

RULE = "people"
# How their names begin, what they are, and the group that only they are in, or the beginning of its name.
_MACHINES = (
    (SERVICE_ACCOUNT_USER_PREFIX, "a service account", SERVICE_ACCOUNTS_GROUP),
    (NODE_USER_PREFIX, "a node", NODES_GROUP),
    (BOOTSTRAP_USER_PREFIX, "a bootstrap token", BOOTSTRAPPERS_GROUP),
)


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
    void: Mapping[str, str] = {},
) -> Said:
    """Whose word about the request counts.

    Nobody decides about a request of his own, nor by a policy of his own: one person would be enough for what two are
    asked for. So would one who speaks once more as a service account, a node or with a bootstrap token: those are no
    people, and count only where the policy names a group that only such have.

    Args:
        authors: who has written the policy that asks for people.
        groups: of which one has to be the approver's; empty takes every person who may write approvals.
        void: by the names of approvals, why they count no more.
    """
    approved: set[str] = set()
    denied: set[str] = set()
    passed_over: set[str] = set()
    for each in approvals:
        spec = each.spec
        if not is_about(each, facts):
            continue
        who = spec.approver
        against = objection(each, facts, authors, groups) or void.get(each.metadata.name, "")
        if against:
            passed_over.add(f"{who} {against}")
        else:
            (approved if spec.decision == APPROVE else denied).add(who)
    # Who has said both has changed his mind, and a denial is the safe reading.
    return Said(tuple(sorted(approved - denied)), tuple(sorted(denied)), tuple(sorted(passed_over)))


def is_about(approval: CertificateApproval, facts: RequestFacts) -> bool:
    """Whether it is about this very request."""
    return (approval.spec.request_uid, approval.spec.request_name) == (facts.uid, facts.name)


def objection(
    approval: CertificateApproval, facts: RequestFacts, authors: Collection[str], groups: Sequence[str]
) -> str:
    """Why the approval does not count, whatever has happened since it was written, as the end of a sentence; else
    empty."""
    who, own = approval.spec.approver, set(approval.spec.groups)
    if who == facts.username:
        return "is the requester"
    if who in authors:
        return "has written the policy"
    kind = next((each for each in _MACHINES if who.startswith(each[0])), None)
    if kind is not None and not any(kind[2] in (each, *_parents(each)) for each in own.intersection(groups)):
        return f"is {kind[1]}, and people.groups names none of its groups"
    if groups and not own.intersection(groups):
        return f"is in none of {', '.join(groups)}"
    return ""


def _parents(group: str) -> tuple[str, ...]:
    """``system:serviceaccounts`` of ``system:serviceaccounts:ci``."""
    parts = group.split(":")
    return tuple(":".join(parts[:count]) for count in range(1, len(parts)))


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
