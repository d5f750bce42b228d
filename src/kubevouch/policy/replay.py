"""What other policies would have made of decisions that are written down. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import msgspec

from kubevouch.policy.verdict import Outcome, Verdict, combine

POLICY_APPROVER = "policy/"


class Change(StrEnum):
    """What a request gets that it did not get, or gets no more."""

    SAME = "unchanged"
    APPROVED = "newly approved"
    DENIED = "newly denied"
    WAITS = "no longer decided"
    UNKNOWN = "cannot be told"


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One request.

    Args:
        before: what was decided.
        after: what would be; its steps say why.
    """

    name: str
    uid: str = ""
    signer: str = ""
    requester: str = ""
    before: Outcome
    after: Verdict
    change: Change


def replayed(
    name: str,
    before: Verdict,
    policies: Sequence[Verdict],
    replaced: Collection[str],
    *,
    uid: str = "",
    signer: str = "",
    requester: str = "",
) -> Replayed:
    """What becomes of a request when policies change.

    Args:
        before: what was decided, and by whom; no opinion of one that nobody has decided.
        policies: what those say that are tried.
        replaced: the names of policies that count no more as they were: what they decided is decided anew.
    """
    by_replaced = before.approver in {f"{POLICY_APPROVER}{each}" for each in replaced}
    rest = [] if by_replaced or before.outcome is Outcome.NO_OPINION else [before]
    after = combine([*rest, *policies])
    return Replayed(
        name=name, uid=uid, signer=signer, requester=requester, before=before.outcome, after=after,
        change=_change(before.outcome, after, policies),
    )  # fmt: skip


def _change(before: Outcome, after: Verdict, policies: Iterable[Verdict]) -> Change:
    if after.outcome is before:
        return Change.SAME
    if after.outcome is Outcome.APPROVE:
        return Change.APPROVED
    if after.outcome is Outcome.DENY:
        return Change.DENIED
    # What nothing is known of any more may have been met then.
    if any(step.result == "error" for each in policies for step in each.steps):
        return Change.UNKNOWN
    return Change.WAITS
