"""What an approver says of a request, and what all of them say together.

The first denial wins, then the first approval, unless somebody says that none counts; what nobody decides stays
undecided and tells what was missing. An error is never an approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

MAX_TEXT_BYTES = 4 << 10
"""Of a reason, a message or what is missing: requests may hold 1,000 names, and their posters choose how long."""
MAX_STEP_BYTES = 512
"""Of each text in a step."""
MAX_TRACE_BYTES = 16 << 10
"""Of all steps together: a trace is kept for as long as the certificate."""

_CUT = "…"


class Outcome(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    NO_OPINION = "no-opinion"


class StepResult(StrEnum):
    """``UNKNOWN`` is what may still turn out either way, ``ERROR`` what could not be looked at: neither approves."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    ERROR = "error"
    SKIPPED = "skipped"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One clause that was looked at.

    Args:
        rule: such as ``san.dns``, ``validations[2]``, ``node-address 10.0.0.1``.
        result: a :class:`StepResult`.
        by: the source that justified it.
    """

    rule: str
    result: str
    got: str = ""
    expected: str = ""
    by: str = ""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one approver says.

    Args:
        approver: ``kubelet-client``, ``kubelet-serving``, ``policy/NAME``, ``webhook/NAME``, ``people``.
        reason: of the condition, in one word for machines.
        message: of the condition, for people.
        missing: of ``NO_OPINION``, what would have to be so: the first clause that is not met.
        retry: of ``NO_OPINION``, whether something may change of which no event tells: the request comes again, later
            and later.
        blocks: of ``NO_OPINION``, whether nobody's approval counts while it says so.
        evidence: what the machine has proven, as JSON in builtins, within :data:`MAX_TRACE_BYTES`; for the ledger.
        rules: hexadecimal SHA-256 of the rules by which it was decided, where they are the operator's.
    """

    outcome: Outcome
    approver: str
    reason: str = ""
    message: str = ""
    missing: str = ""
    steps: tuple[Step, ...] = ()
    retry: bool = False
    blocks: bool = False
    evidence: Any = None
    rules: str = ""


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """What all say together, with the steps of each behind one that tells its outcome, within the bounds above."""
    # What might deny has to say something first.
    outcomes = (Outcome.DENY,) if any(each.blocks for each in verdicts) else (Outcome.DENY, Outcome.APPROVE)
    for outcome in outcomes:
        deciding = next((each for each in verdicts if each.outcome is outcome), None)
        if deciding is not None:
            # Whoever denies, what the machine has shown belongs to the decision.
            proof = next((each for each in (deciding, *verdicts) if each.evidence is not None), deciding)
            return msgspec.structs.replace(
                deciding,
                message=cut(deciding.message, MAX_TEXT_BYTES),
                missing="",
                retry=False,
                blocks=False,
                steps=_trace(verdicts, deciding),
                evidence=proof.evidence,
                rules=proof.rules,
            )
    waiting = sorted((each for each in verdicts if each.missing), key=lambda each: not each.blocks)
    told = [f"{each.approver}: {each.missing}" if len(waiting) > 1 else each.missing for each in waiting]
    return Verdict(
        outcome=Outcome.NO_OPINION,
        approver=waiting[0].approver if waiting else "",
        reason=waiting[0].reason if waiting else "",
        missing=cut("; ".join(told), MAX_TEXT_BYTES),
        retry=any(each.retry for each in verdicts),
        blocks=any(each.blocks for each in verdicts),
        steps=_trace(verdicts, None),
    )


_RESULTS = {Outcome.APPROVE: StepResult.MET, Outcome.DENY: StepResult.UNMET, Outcome.NO_OPINION: StepResult.UNKNOWN}


def _trace(verdicts: Sequence[Verdict], deciding: Verdict | None) -> tuple[Step, ...]:
    """The deciding verdict's steps first, so that a bound never takes those away that made the decision."""
    ordered = sorted(verdicts, key=lambda each: each is not deciding)
    whole: list[Step] = []
    for each in ordered:
        told = each.message or each.missing
        result = _RESULTS[each.outcome] if told else StepResult.SKIPPED
        whole.append(Step(each.approver, result, told or "no opinion", by=each.reason))
        whole += (msgspec.structs.replace(step, rule=f"{each.approver}: {step.rule}") for step in each.steps)
    return bounded(whole)


def bounded(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The first ``steps`` that fit :data:`MAX_TRACE_BYTES`, and how many did not."""
    kept: list[Step] = []
    left = MAX_TRACE_BYTES
    for step in steps:
        rule, got, expected, by = (cut(text, MAX_STEP_BYTES) for text in (step.rule, step.got, step.expected, step.by))
        short = Step(rule, step.result, got, expected, by)
        left -= sum(len(text.encode()) for text in (rule, step.result, got, expected, by))
        if left < 0:
            return (*kept, Step("trace", StepResult.SKIPPED, f"{len(steps) - len(kept)} more steps"))
        kept.append(short)
    return tuple(kept)


def cut(text: str, limit: int) -> str:
    """``text`` within ``limit`` bytes of UTF-8. Of surrogates, which no UTF-8 has, question marks stay."""
    octets = text.encode(errors="replace")
    if len(octets) <= limit:
        return octets.decode()
    return octets[: limit - len(_CUT.encode())].decode(errors="ignore") + _CUT
