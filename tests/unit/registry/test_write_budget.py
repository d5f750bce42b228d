"""Real nodes and fleets never meet the budget; who writes large objects again and again does."""

from __future__ import annotations

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.records.node_recovery import RECOVERERS_GROUP
from kubevouch.registry import write_budget
from kubevouch.registry.write_budget import (
    BOOTSTRAP,
    CONTROL_PLANE,
    NODE,
    WORKLOAD,
    Allowance,
    WriteBudget,
    allowance_of,
)
from kubevouch.testing.clock import FakeClock

A_NODE = UserInfo("system:node:a", groups=("system:nodes", "system:authenticated"))
A_TOKEN = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",))
ADMIN = UserInfo("admin", groups=("system:masters",))
SYSTEM = UserInfo("system:serviceaccount:kube-system:x", groups=("system:serviceaccounts:kube-system",))
MIB = 1 << 20
DAY = 24 * 3600


def _wait(budget: WriteBudget, user: UserInfo, size: int) -> int:
    """0, or the seconds that a refusal names."""
    try:
        budget.spend(user, size)
    except APIStatusError as err:
        return err.status.details.retry_after_seconds if err.status.details is not None and err.code == 429 else -1
    return 0


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (A_NODE, NODE), (A_TOKEN, BOOTSTRAP), (SYSTEM, CONTROL_PLANE), (UserInfo("alice"), WORKLOAD),
        (UserInfo("system:kube-controller-manager"), CONTROL_PLANE), (ADMIN, None),
        (UserInfo("kubernetes-admin", groups=("kubeadm:cluster-admins",)), None),
        (UserInfo("whoever", groups=(RECOVERERS_GROUP,)), BOOTSTRAP),
    ],
)  # fmt: skip
def test_who_has_which(user: UserInfo, expected: Allowance | None) -> None:
    assert allowance_of(user) == expected


def test_a_busy_kubelet_is_never_refused() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock)
    for second in range(0, DAY, 10):
        budget.spend(A_NODE, 50_000)  # its status, at its largest and as often as it can be
        budget.spend(A_NODE, 1_000)
        for _ in range(25 if second % 300 == 0 else 0):
            budget.spend(A_NODE, 2_000)  # the Events of a bad minute
        clock.advance(10)
    assert budget.refused == 0


def test_a_fleet_joins_with_one_token() -> None:
    budget = WriteBudget(FakeClock())
    for _ in range(20_000):
        budget.spend(A_TOKEN, 4_000)
    assert budget.refused == 0


@pytest.mark.parametrize("user", [A_NODE, A_TOKEN, SYSTEM, UserInfo("alice")])
def test_what_one_writer_has_stored_in_an_hour_is_bounded(user: UserInfo) -> None:
    clock = FakeClock()
    budget, allowance, size = WriteBudget(clock), allowance_of(user), 1_400_000
    assert allowance is not None
    written = 0
    for _ in range(3600):
        while not _wait(budget, user, size):
            written += size - allowance.free
        clock.advance(1)
    assert allowance.burst < written <= allowance.burst + 3600 * allowance.rate + size


def test_after_the_time_that_a_refusal_names_there_is_something_left() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock)
    waits = [_wait(budget, A_NODE, MIB) for _ in range(5)]
    assert waits[:4] == [0, 0, 0, 0]
    for _ in range(10):
        clock.advance(waits[-1] - 1)
        assert _wait(budget, A_NODE, MIB) == 1
        clock.advance(1)
        assert _wait(budget, A_NODE, MIB) == 0
        waits.append(_wait(budget, A_NODE, MIB))


def test_one_writer_does_not_spend_another_s() -> None:
    budget = WriteBudget(FakeClock())
    for _ in range(4):
        budget.spend(A_NODE, MIB)
    with pytest.raises(APIStatusError, match="system:node:a has written too much"):
        budget.spend(A_NODE, 1)
    budget.spend(UserInfo("system:node:b", groups=A_NODE.groups), MIB)
    for _ in range(1000):
        budget.spend(ADMIN, MIB)


def test_writers_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_budget, "MAX_WRITERS", 10)
    budget = WriteBudget(FakeClock())
    for number in range(100):
        budget.spend(UserInfo(f"user-{number}"), MIB)
        budget.spend(A_NODE, 100)
    assert len(budget._left) == 10
    assert A_NODE.name in budget._left


def test_whoever_has_stolen_a_token_leaves_other_addresses_theirs() -> None:
    clock = FakeClock()
    budget = WriteBudget(clock)
    for _ in range(5):
        budget.spend(A_TOKEN, MIB, "198.51.100.7")
    with pytest.raises(APIStatusError, match="16 KiB a second in all may be written, 4 MiB at once"):
        budget.spend(A_TOKEN, MIB, "198.51.100.7")
    budget.spend(A_TOKEN, MIB, "203.0.113.1")
    # All addresses of one network are one, and all who have the token have something together.
    for number in range(5):
        budget.spend(A_TOKEN, MIB, f"2001:db8::{number}")
    with pytest.raises(APIStatusError):
        budget.spend(A_TOKEN, MIB, "2001:db8::5")
    for number in range(54):
        budget.spend(A_TOKEN, MIB, f"192.0.2.{number}")
    with pytest.raises(APIStatusError, match="256 KiB a second in all may be written, 64 MiB at once"):
        budget.spend(A_TOKEN, MIB, "192.0.2.99")
