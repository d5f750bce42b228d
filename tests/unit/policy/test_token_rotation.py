"""Tokens are renewed, replaced or left, as Cluster API's bootstrap provider does and as the proposal has it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kubevouch.policy.token_rotation import Action, Decision, Stored, decide, keeping_of
from kubevouch.records.token_pools import Keeping
from node_cases import CASES as NODE_CASES

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
TTL = dt.timedelta(minutes=15)
LATER, AGAIN = NOW + TTL, TTL / 3
RENEW, KEEP = Decision(Action.RENEW, LATER, AGAIN), Decision(Action.KEEP, again=AGAIN)
REPLACE = Decision(Action.REPLACE, LATER, AGAIN)


def at(minutes: float) -> Stored:
    return Stored(NOW + dt.timedelta(minutes=minutes))


def test_how_tokens_are_kept() -> None:
    assert keeping_of(is_pool=False, attests=False) is keeping_of(is_pool=False, attests=True) is Keeping.UNTIL_NODES
    assert (keeping_of(is_pool=True, attests=False), keeping_of(is_pool=True, attests=True)) == (
        Keeping.ROTATE,
        Keeping.RENEW,
    )


@pytest.mark.parametrize("keeping", Keeping)
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (at(13), KEEP), (at(12.5), RENEW), (at(7), RENEW), (at(0), RENEW), (at(-60), RENEW), (at(600), KEEP),
        (Stored(None), RENEW),
    ],
)  # fmt: skip
def test_without_nodes_the_same_token_is_renewed_when_a_sixth_of_its_life_is_over(
    keeping: Keeping, stored: Stored, expected: Decision
) -> None:
    assert decide(keeping, stored, has_nodes=False, ttl=TTL, now=NOW) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(at(7), REPLACE), (at(7.5), KEEP), (at(-1), REPLACE), (Stored(None), REPLACE), (None, REPLACE)],
)  # fmt: skip
def test_with_nodes_a_token_is_replaced_when_half_of_its_life_is_over(
    stored: Stored | None, expected: Decision
) -> None:
    assert decide(Keeping.ROTATE, stored, has_nodes=True, ttl=TTL, now=NOW) == expected


@pytest.mark.parametrize(("stored", "expected"), [(at(7), RENEW), (at(13), KEEP), (None, REPLACE)])
def test_one_that_is_renewed_is_never_replaced_while_it_is_there(stored: Stored | None, expected: Decision) -> None:
    assert decide(Keeping.RENEW, stored, has_nodes=True, ttl=TTL, now=NOW) == expected


@pytest.mark.parametrize("stored", [at(7), at(-1), Stored(None), None])
def test_that_of_a_machine_ends_once_it_is_a_node(stored: Stored | None) -> None:
    assert decide(Keeping.UNTIL_NODES, stored, has_nodes=True, ttl=TTL, now=NOW) == Decision(Action.KEEP)


def test_a_machine_whose_token_is_gone_is_lost_and_a_pool_gets_another() -> None:
    assert decide(Keeping.UNTIL_NODES, None, has_nodes=False, ttl=TTL, now=NOW) == Decision(Action.LOST)
    assert decide(Keeping.ROTATE, None, has_nodes=False, ttl=TTL, now=NOW) == REPLACE


def test_a_pool_that_is_renewed_beside_cluster_api_is_never_old_enough_for_it_to_rotate() -> None:
    # Looked at each third of its life, renewed at five sixths: never less than half is left, where others rotate.
    expires, now = NOW + TTL, NOW
    for _ in range(20):
        now += AGAIN
        assert not expires < now + TTL / 2
        found = decide(Keeping.RENEW, Stored(expires), has_nodes=True, ttl=TTL, now=now)
        expires = found.expires or expires


# ------------------------------------------------------------------ cases

CASES = [case for case in NODE_CASES if case["area"] == "capi" and case["when"].startswith("reconcile token")]


def _moment(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text) if text else None


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_cases_of_the_facts(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    ttl = dt.timedelta(minutes=given.get("ttl_min", 15))
    now = _moment(given.get("now")) or NOW
    keeping = keeping_of(is_pool=given.get("owner") == "MachinePool", attests=given.get("kubeletAuthentication", False))
    stored = None if given.get("secret") == "missing" else Stored(_moment(given.get("expiration")))
    found = decide(keeping, stored, has_nodes=given.get("nodeRefs", 0) > 0, ttl=ttl, now=now)
    if "ok" in then:
        assert (found.action is not Action.LOST) is then["ok"]
    if "new_expiration" in then:
        assert found.expires == _moment(then["new_expiration"])
    if "requeue_min" in then:
        assert found.again == dt.timedelta(minutes=then["requeue_min"])
    actions = {"refresh same token": Action.RENEW, "new token, new bootstrap data": Action.REPLACE}
    if "action" in then:
        assert found.action is actions[then["action"]]
