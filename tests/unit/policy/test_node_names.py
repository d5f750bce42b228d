from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.api.core_v1.nodes import Node, NodeCondition, NodeStatus
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.policy.node_names import (
    ADMITTED,
    LOCKED_REASON,
    TAKEN_REASON,
    Asked,
    Decision,
    Held,
    Inventory,
    alive,
    decide,
)
from kubevouch.revocation.node_records import NodeRecord

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
UNTIL = NOW + 300 * DAY
ASKED = Asked(node_name="n", key="a")


def held(key: str = "b", issued: dt.datetime = NOW - 5 * DAY, end: dt.datetime = NOW + DAY) -> Held:
    return Held(key=key, issued=issued, not_after=end)


RELEASED = NodeRecord(released=NOW - DAY, until=UNTIL)
LOCKED = NodeRecord(released=NOW - DAY, locked=NOW - DAY, until=UNTIL, why="stolen")


@pytest.mark.parametrize(
    ("inventory", "decision"),
    [
        (Inventory(), Decision.ADMIT),
        (Inventory(certificates=(held(),)), Decision.DENY),
        (Inventory(certificates=(held(end=NOW),)), Decision.ADMIT),
        (Inventory(certificates=(held(end=NOW), held())), Decision.DENY),
        (Inventory(certificates=(held(), held("a"))), Decision.ADMIT),
        (Inventory(certificates=(held("a", end=NOW), held())), Decision.DENY),
        (Inventory(certificates=(held(""),)), Decision.DENY),
        (Inventory(registered=True, alive="its Node is Ready"), Decision.DENY),
        (Inventory(certificates=(held("a"),), alive="its Node is Ready"), Decision.ADMIT),
        (Inventory(approved=("b",)), Decision.WAIT),
        (Inventory(approved=("b", "a")), Decision.ADMIT),
        (Inventory(approved=("b",), alive="its Node is Ready"), Decision.DENY),
        (Inventory(certificates=(held(),), record=RELEASED), Decision.ADMIT),
        (Inventory(certificates=(held(issued=NOW - DAY),), record=RELEASED), Decision.DENY),
        (Inventory(certificates=(held(issued=NOW),), record=RELEASED), Decision.DENY),
        (Inventory(record=LOCKED), Decision.DENY),
        (Inventory(certificates=(held("a"),), record=LOCKED), Decision.DENY),
        (Inventory(record=NodeRecord(locked=NOW - 2 * DAY, until=NOW)), Decision.ADMIT),
    ],
)
def test_a_machine_with_a_token(inventory: Inventory, decision: Decision) -> None:
    verdict = decide(ASKED, inventory, takeover=False, now=NOW)
    assert verdict.decision is decision
    locked = inventory.record.locked is not None
    assert verdict.reason == ((LOCKED_REASON if locked else TAKEN_REASON) if decision is Decision.DENY else "")
    # Taken over is any name but that of a node which is locked out.
    assert (decide(ASKED, inventory, takeover=True, now=NOW) == ADMITTED) is not (locked and decision is Decision.DENY)
    bound = Asked(node_name="n", key="a", bound=True)
    assert decide(bound, inventory, takeover=False, now=NOW) == ADMITTED


@pytest.mark.parametrize(
    ("certificates", "admitted"),
    [((), False), ((held(),), False), ((held(), held(issued=NOW)), True), ((held(issued=NOW - DAY),), False)],
)
def test_a_node_that_was_locked_out_renews_once_it_was_let_in_again(
    certificates: tuple[Held, ...], admitted: bool
) -> None:
    own = Asked(node_name="n", key="a", own=True)
    verdict = decide(own, Inventory(certificates=certificates, record=LOCKED), takeover=True, now=NOW)
    assert (verdict == ADMITTED) is admitted
    assert decide(own, Inventory(certificates=certificates, alive="x"), takeover=False, now=NOW) == ADMITTED


def ready(status: str = "True", heard: dt.datetime | None = NOW) -> Node:
    at = None if heard is None else Time.of(heard)
    return Node(status=NodeStatus(conditions=[NodeCondition(type="Ready", status=status, last_heartbeat_time=at)]))


def lease(renewed: dt.datetime | None) -> Lease:
    return Lease(spec=LeaseSpec(renew_time=None if renewed is None else MicroTime.of(renewed)))


@pytest.mark.parametrize(
    ("node", "of", "lives"),
    [
        (None, None, False),
        (Node(), None, False),
        (ready(), None, True),
        (ready(heard=None), None, True),
        (ready(heard=NOW - dt.timedelta(minutes=14)), None, True),
        (ready(heard=NOW - dt.timedelta(minutes=15)), None, False),
        (ready("Unknown"), None, False),
        (Node(), lease(None), False),
        (Node(), lease(NOW - dt.timedelta(minutes=4)), True),
        (Node(), lease(NOW - dt.timedelta(minutes=5)), False),
        (Node(), lease(NOW + dt.timedelta(minutes=50)), True),
        (ready("Unknown"), lease(NOW), True),
    ],
)
def test_signs_of_life(node: Node | None, of: Lease | None, lives: bool) -> None:
    assert bool(alive(node, of, NOW)) is lives


@pytest.mark.parametrize("registered", [True, False])
def test_a_node_is_to_be_deleted_only_where_there_is_one(registered: bool) -> None:
    inventory = Inventory(certificates=(held(),), registered=registered)
    said = decide(ASKED, inventory, takeover=False, now=NOW).message
    assert ("kubectl delete node n" in said) is registered
    assert "kubevouch token create --node-name n" in said and "another name" in said
