"""policy/verdict.py: what several approvers say together."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.policy.verdict import MAX_TRACE_BYTES, Outcome, Step, StepResult, Verdict, combine, cut

APPROVED = Verdict(Outcome.APPROVE, "policy/a", "PolicyMet", "all rules are met", steps=(Step("key", StepResult.MET),))
DENIED = Verdict(Outcome.DENY, "policy/b", "PolicyUnmet", "no", steps=(Step("san.dns", StepResult.UNMET, "x", "y"),))
WAITING = Verdict(Outcome.NO_OPINION, "kubelet-client", missing="a right", retry=True)

VERDICTS = st.builds(
    Verdict,
    st.sampled_from(Outcome),
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=3000),
    st.text(max_size=3000),
    st.lists(st.builds(Step, st.text(max_size=900), st.sampled_from(StepResult), st.text(max_size=900)), max_size=9)
    .map(tuple),
)  # fmt: skip


@pytest.mark.parametrize("verdicts", [[APPROVED, DENIED], [DENIED, APPROVED], [WAITING, APPROVED, DENIED]])
def test_a_denial_wins_wherever_it_stands(verdicts: list[Verdict]) -> None:
    found = combine(verdicts)
    assert (found.outcome, found.approver, found.reason, found.message) == (
        Outcome.DENY, "policy/b", "PolicyUnmet", "no",
    )  # fmt: skip
    assert Step("policy/a: key", StepResult.MET) in found.steps


def test_the_first_of_two_that_agree_is_named() -> None:
    second = msgspec.structs.replace(DENIED, approver="policy/c")
    assert combine([WAITING, DENIED, second]).approver == "policy/b"
    assert combine([WAITING, APPROVED, msgspec.structs.replace(APPROVED, approver="z")]).approver == "policy/a"


def test_what_nobody_decides_tells_what_was_missing_and_comes_again() -> None:
    silent = Verdict(Outcome.NO_OPINION, "webhook/w")
    found = combine([silent, WAITING])
    assert (found.outcome, found.missing, found.retry) == (Outcome.NO_OPINION, "a right", True)
    other = Verdict(Outcome.NO_OPINION, "policy/a", missing="a name")
    assert combine([other, WAITING]).missing == "policy/a: a name; kubelet-client: a right"
    assert combine([silent]).missing == ""
    assert combine([]).outcome is Outcome.NO_OPINION


def test_no_approval_counts_while_somebody_blocks() -> None:
    blocking = Verdict(Outcome.NO_OPINION, "policy/z", missing="the ledger", blocks=True)
    found = combine([WAITING, APPROVED, blocking])
    assert (found.outcome, found.approver) == (Outcome.NO_OPINION, "policy/z")
    assert combine([APPROVED, blocking, DENIED]).outcome is Outcome.DENY


def test_a_decision_does_not_come_again() -> None:
    assert not combine([WAITING, APPROVED]).retry


def test_the_steps_of_the_decision_are_kept_when_there_is_no_room_for_all() -> None:
    loud = Verdict(Outcome.NO_OPINION, "loud", steps=tuple(Step(f"{n}", "unknown", "x" * 500) for n in range(100)))
    found = combine([loud, DENIED])
    assert found.steps[1] == Step("policy/b: san.dns", StepResult.UNMET, "x", "y")
    assert found.steps[-1].result == StepResult.SKIPPED
    assert found.steps[-1].got == f"{103 - len(found.steps) + 1} more steps"


@given(st.lists(VERDICTS, max_size=8))
def test_any_verdicts_combine_within_bounds(verdicts: list[Verdict]) -> None:
    found = combine(verdicts)
    outcomes = [each.outcome for each in verdicts]
    wins = Outcome.DENY if Outcome.DENY in outcomes else Outcome.APPROVE
    assert found.outcome is (wins if wins in outcomes else Outcome.NO_OPINION)
    assert len(msgspec.json.encode(found)) < 8 * MAX_TRACE_BYTES
    assert sum(len(f"{each.rule}{each.got}{each.expected}{each.by}".encode()) for each in found.steps) <= (
        MAX_TRACE_BYTES + 100
    )


@given(st.text(max_size=40), st.integers(3, 60))
def test_a_text_is_cut_to_whole_characters(text: str, limit: int) -> None:
    found = cut(text, limit)
    assert len(found.encode()) <= limit
    assert found == text or found.endswith("…")


def test_surrogates_are_replaced() -> None:
    assert cut("a\ud800b", 10) == "a?b"


def test_what_a_machine_has_proven_stays_with_the_decision_whoever_makes_it() -> None:
    proven = Verdict(Outcome.APPROVE, "node-attestation", evidence={"provider": "tpm"}, rules="ab")
    denied = Verdict(Outcome.DENY, "policy/night", "Night")
    for verdicts in ([proven, denied], [denied, proven], [proven]):
        found = combine(verdicts)
        assert (found.evidence, found.rules) == ({"provider": "tpm"}, "ab")
    assert (combine([denied]).evidence, combine([denied]).rules) == (None, "")
