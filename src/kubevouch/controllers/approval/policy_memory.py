"""What policies said of a request that took long to judge, or that they failed for: it is not judged again for nothing.

A request that waits is judged at each retry and each change of what it waits for, with the same result as long as
nothing has changed that its policies look at. Whoever makes a request expensive makes it so once.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence

import msgspec

from kubevouch.policy.certificate_policies import CompiledPolicy, Known
from kubevouch.policy.verdict import MAX_STEP_BYTES, Step, StepResult, cut

MAX_BYTES = 16 << 20
"""Of all texts that are kept; then the oldest are forgotten."""
FAILURE_LASTS = dt.timedelta(minutes=10)
"""How long a failure is remembered of policies that look at the time."""
_OVERHEAD_BYTES = 512

Steps = tuple[Step, ...]


class _Judgement(msgspec.Struct, frozen=True):
    policies: Sequence[CompiledPolicy]
    surroundings: bytes
    until: dt.datetime | None
    steps: Sequence[Steps]
    size: int


class PolicyMemory:
    """By the UID of a request, which never changes itself."""

    def __init__(self) -> None:
        self._judgements: dict[str, _Judgement] = {}
        self._size = 0

    def find(self, uid: str, policies: Sequence[CompiledPolicy], known: Known) -> Sequence[Steps] | None:
        """The steps of each of ``policies``, if they are the ones that were kept and all is as it was then."""
        judgement = self._judgements.get(uid)
        if judgement is None:
            return None
        # What all policies of a request may cost together makes each result depend on the others.
        same = len(judgement.policies) == len(policies) and all(map(_is_same, judgement.policies, policies))
        current = judgement.until is None or known.around.now < judgement.until
        if same and current and judgement.surroundings == _digest(known):
            return judgement.steps
        self._forget(uid)
        return None

    def keep(self, uid: str, policies: Sequence[CompiledPolicy], known: Known, steps: Sequence[Steps]) -> None:
        """``steps``: of each policy."""
        until: dt.datetime | None = None
        if any("now" in policy.names for policy in policies):
            if not has_failed(steps):
                return
            until = known.around.now + FAILURE_LASTS
        self._forget(uid)
        kept = [tuple(map(_short, each)) for each in steps]
        size = _OVERHEAD_BYTES + sum(len(step.got) + len(step.expected) for each in kept for step in each)
        self._judgements[uid] = _Judgement(tuple(policies), _digest(known), until, kept, size)
        self._size += size
        while self._size > MAX_BYTES:
            self._forget(next(iter(self._judgements)))

    def _forget(self, uid: str) -> None:
        judgement = self._judgements.pop(uid, None)
        if judgement is not None:
            self._size -= judgement.size


def has_failed(steps: Sequence[Steps]) -> bool:
    return any(step.result == StepResult.ERROR for each in steps for step in each)


def _is_same(one: CompiledPolicy, other: CompiledPolicy) -> bool:
    return one is other


def _short(step: Step) -> Step:
    return msgspec.structs.replace(step, got=cut(step.got, MAX_STEP_BYTES), expected=cut(step.expected, MAX_STEP_BYTES))


def _digest(known: Known) -> bytes:
    """Of all that is looked at beside the request, but the time. A Node may be large, and is not kept."""
    around = known.around
    approvals = [(each.metadata.uid, each.metadata.resource_version) for each in known.approvals]
    seen = (around.node, around.machine, around.evidence, known.records, approvals, sorted(known.void.items()))
    return hashlib.sha256(msgspec.json.encode(seen)).digest()
