"""policy/replay.py: what changes for whom."""

from __future__ import annotations

import pytest

from kubevouch.policy.replay import Change, replayed
from kubevouch.policy.verdict import Outcome, Step, Verdict

YES, NO, NONE = Outcome.APPROVE, Outcome.DENY, Outcome.NO_OPINION


def says(outcome: Outcome, approver: str = "policy/new", *results: str, blocks: bool = False) -> Verdict:
    return Verdict(outcome, approver, steps=tuple(Step("a", result) for result in results), blocks=blocks)


@pytest.mark.parametrize(
    ("before", "policies", "change"),
    [
        (says(NONE, ""), [says(YES)], Change.APPROVED),
        (says(NONE, ""), [says(NONE)], Change.SAME),
        (says(NONE, ""), [], Change.SAME),
        (says(YES, "kubelet-client"), [says(NO)], Change.DENIED),
        (says(YES, "kubelet-client"), [says(NONE)], Change.SAME),
        (says(YES, "kubelet-client"), [says(NONE, blocks=True)], Change.WAITS),
        (says(NO, "webhook/w"), [says(YES)], Change.SAME),
        (says(NO, "policy/other"), [says(YES)], Change.SAME),
        # What the policy itself has said is asked anew.
        (says(NO, "policy/new"), [says(YES)], Change.APPROVED),
        (says(NO, "policy/new"), [], Change.WAITS),
        (says(YES, "policy/new"), [says(NO)], Change.DENIED),
        (says(YES, "policy/new"), [says(NONE, "policy/new", "error")], Change.UNKNOWN),
        (says(YES, "policy/newer"), [says(NONE)], Change.SAME),
    ],
)
def test_what_changes(before: Verdict, policies: list[Verdict], change: Change) -> None:
    found = replayed("csr-1", before, policies, {"new"}, uid="u", requester="alice")
    assert (found.change, found.before, found.requester) == (change, before.outcome, "alice")
