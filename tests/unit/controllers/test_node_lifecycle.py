"""controllers/node_lifecycle.py: what becomes of a Node whose kubelet is silent, and of one that comes back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
import pytest

import identity_world as world
from kubevouch import wellknown
from kubevouch.api.catalog import LEASES, NODES
from kubevouch.api.coordination_v1 import Lease, LeaseSpec
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeCondition, NodeSpec, NodeStatus, Taint
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.interface import Client
from kubevouch.controllers.node_lifecycle import with_taints, with_unknown
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.phases import bootstrap_token
from kubevouch.phases.join import JoinError, verify_node_is_free
from kubevouch.records import token_bounds
from kubevouch.records.bootstrap_tokens import generate_token
from kubevouch.records.token_bounds import TOKEN_UID_EXTRA
from kubevouch.testing.cluster import Cluster

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NAME = "worker-1"
CONTROLLERS = ("csrapproving", "csrsigning", "certificateledger", "tokenuses", "nodelifecycle")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def node(*taints: Taint, **conditions: str) -> Node:
    said = [
        NodeCondition(
            type=kind, status=status, reason="Kubelet", message="said", last_heartbeat_time=Time.of(NOW),
            last_transition_time=Time.of(NOW),
        )
        for kind, status in conditions.items()
    ]  # fmt: skip
    return Node(
        metadata=ObjectMeta(name=NAME, creation_timestamp=Time.of(NOW)),
        spec=NodeSpec(taints=list(taints)),
        status=NodeStatus(conditions=said),
    )


def taints(of: Node) -> list[tuple[str, str]]:
    return sorted((taint.key.removeprefix("node.kubernetes.io/"), taint.effect) for taint in of.spec.taints)


# ------------------------------------------------------------------ rules


def test_what_was_said_becomes_unknown_and_what_never_was_is_added() -> None:
    later = NOW + dt.timedelta(minutes=1)
    silent = with_unknown(node(Ready="True", DiskPressure="Unknown", NetworkUnavailable="False"), later)
    told = {each.type: (each.status, each.reason, each.message) for each in silent.status.conditions}
    assert told == {
        "Ready": ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."),
        "DiskPressure": ("Unknown", "Kubelet", "said"),
        "NetworkUnavailable": ("False", "Kubelet", "said"),
        "MemoryPressure": ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status."),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status."),
    }
    times = {each.type: (each.last_heartbeat_time, each.last_transition_time) for each in silent.status.conditions}
    assert times["Ready"] == times["PIDPressure"] == (Time.of(NOW), Time.of(later))
    assert times["DiskPressure"] == (Time.of(NOW), Time.of(NOW))
    assert with_unknown(silent, later + dt.timedelta(hours=1)) is silent


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ({"Ready": "True"}, []),
        ({"Ready": "False"}, [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")]),
        ({"Ready": "Unknown"}, [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]),
        (
            {"Ready": "True", "MemoryPressure": "True", "DiskPressure": "True", "PIDPressure": "True"},
            [("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule")],
        ),
        ({"Ready": "True", "NetworkUnavailable": "True"}, [("network-unavailable", "NoSchedule")]),
        ({}, []),
    ],
)
def test_taints_follow_the_conditions(conditions: dict[str, str], wanted: list[tuple[str, str]]) -> None:
    """Whatever was there before: the pairs of the other state go, those of other people stay."""
    old = [Taint(key=key, effect=effect) for key in (NOT_READY, UNREACHABLE) for effect in ("NoSchedule", "NoExecute")]
    foreign = [Taint(key="dedicated", effect="NoExecute"), Taint(key=NOT_READY, effect="PreferNoSchedule")]
    for former in ([], old):
        before = node(*foreign, *former, **conditions)
        after = with_taints(before, NOW)
        evicting = [pair for pair in taints(before) if not conditions and pair[1] == "NoExecute"][1:]
        assert taints(after) == sorted([*taints(node(*foreign)), *wanted, *evicting])
        assert with_taints(after, NOW) is after


def test_a_taint_says_when_it_was_added_and_keeps_that() -> None:
    first = with_taints(node(Ready="Unknown"), NOW)
    assert [taint.time_added for taint in first.spec.taints] == [Time.of(NOW)] * 2
    assert with_taints(first, NOW + dt.timedelta(hours=1)) is first


def test_a_cordoned_node_is_tainted() -> None:
    ready = node(Ready="True")
    cordoned = with_taints(msgspec.structs.replace(ready, spec=NodeSpec(unschedulable=True)), NOW)
    assert taints(cordoned) == [("unschedulable", "NoSchedule")]
    free = msgspec.structs.replace(cordoned, spec=msgspec.structs.replace(cordoned.spec, unschedulable=False))
    assert taints(with_taints(free, NOW)) == []


# ------------------------------------------------------------------ the controller at work


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=CONTROLLERS, now=NOW) as cluster:
        yield cluster


class Kubelet:
    """What one does of a kubelet's work."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.as_user(world.node_user(NAME))
        self._nodes.create(Node(metadata=ObjectMeta(name=NAME)))
        cluster.settle()

    def posts(self, ready: str) -> None:
        now = Time.of(self._cluster.clock.now())
        said = [
            NodeCondition(type=kind, status=status, last_heartbeat_time=now, last_transition_time=now)
            for kind, status in (("Ready", ready), *((kind, "False") for kind in PRESSURES))
        ]
        self._cluster.settle()
        found = self._cluster.get(NODES, NAME)
        self._nodes.update(msgspec.structs.replace(found, status=NodeStatus(conditions=said)), subresource="status")
        self._cluster.settle()

    def renews(self, ahead: dt.timedelta = dt.timedelta()) -> None:
        spec = LeaseSpec(holder_identity=NAME, renew_time=MicroTime.of(self._cluster.clock.now() + ahead))
        meta = ObjectMeta(name=NAME, namespace=wellknown.KUBE_NODE_LEASE_NAMESPACE)
        if not self._cluster.list(LEASES, wellknown.KUBE_NODE_LEASE_NAMESPACE):
            self._nodes.create(Lease(metadata=meta, spec=spec))
        else:
            found = self._cluster.get(LEASES, NAME, wellknown.KUBE_NODE_LEASE_NAMESPACE)
            self._nodes.update(msgspec.structs.replace(found, spec=spec))
        self._cluster.settle()


def passes(cluster: Cluster, seconds: float) -> None:
    cluster.clock.advance(seconds)
    cluster.settle()


def stands(cluster: Cluster) -> tuple[str, list[tuple[str, str]]]:
    cluster.settle()
    found = cluster.get(NODES, NAME)
    ready = next((each.status for each in found.status.conditions if each.type == "Ready"), "")
    return ready, taints(found)


GONE = ("Unknown", [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")])
WELL: tuple[str, list[tuple[str, str]]] = ("True", [])


def test_a_node_that_becomes_ready_loses_the_taint_it_was_made_with(cluster: Cluster) -> None:
    kubelet = Kubelet(cluster)
    kubelet.posts("False")
    assert stands(cluster) == ("False", [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")])
    kubelet.posts("True")
    assert stands(cluster) == WELL


@pytest.mark.parametrize("clock_of_the_node", [dt.timedelta(), dt.timedelta(hours=-3), dt.timedelta(hours=3)])
def test_a_node_lives_as_long_as_its_lease_is_renewed(cluster: Cluster, clock_of_the_node: dt.timedelta) -> None:
    kubelet = Kubelet(cluster)
    kubelet.posts("True")
    for _ in range(12):
        kubelet.renews(clock_of_the_node)
        passes(cluster, 40)
    assert stands(cluster) == WELL
    passes(cluster, 9)
    assert stands(cluster) == WELL
    passes(cluster, 1)
    assert stands(cluster) == GONE


def test_a_status_is_a_heartbeat_too_and_brings_a_node_back(cluster: Cluster) -> None:
    kubelet = Kubelet(cluster)
    for _ in range(3):
        kubelet.posts("True")
        passes(cluster, 49)
    assert stands(cluster) == WELL
    passes(cluster, 1)
    assert stands(cluster) == GONE
    kubelet.renews()
    assert stands(cluster) == GONE  # it lives, and has not said how it is
    kubelet.posts("True")
    assert stands(cluster) == WELL
    passes(cluster, 50)
    assert stands(cluster) == GONE


def test_a_kubelet_that_has_never_spoken_has_a_minute(cluster: Cluster) -> None:
    Kubelet(cluster)
    passes(cluster, 59)
    assert stands(cluster)[0] == ""
    passes(cluster, 1)
    assert stands(cluster) == GONE
    ready = cluster.get(NODES, NAME).status.conditions[0]
    assert (ready.reason, ready.message) == ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


def test_a_start_of_the_server_is_no_death(cluster: Cluster) -> None:
    kubelet = Kubelet(cluster)
    kubelet.posts("True")
    kubelet.renews()
    passes(cluster, 45)
    cluster.restart()
    cluster.settle()
    passes(cluster, 45)
    assert stands(cluster) == WELL
    passes(cluster, 5)
    assert stands(cluster) == GONE


def test_an_old_lease_that_is_put_back_is_no_heartbeat(cluster: Cluster) -> None:
    kubelet = Kubelet(cluster)
    kubelet.posts("True")
    kubelet.renews()
    passes(cluster, 30)
    kubelet.renews(-dt.timedelta(hours=1))
    passes(cluster, 20)
    assert stands(cluster) == GONE


def test_an_event_tells_of_it(cluster: Cluster) -> None:
    Kubelet(cluster).posts("True")
    passes(cluster, 50)
    told = [event for event in cluster.list("Event", "default") if event.reason == "NodeNotReady"]
    assert [event.message for event in told] == [f"Node {NAME} status is now: NodeNotReady"]


# ------------------------------------------------------------------ a machine that was installed anew


def _free(client: Client, cluster: Cluster) -> bool:
    try:
        cluster.run(verify_node_is_free(client, NAME))
    except JoinError:
        return False
    return True


def test_the_machine_of_a_dead_node_gets_its_name_again_with_a_token_for_it(cluster: Cluster) -> None:
    """Neither kubeadm's nor our courtesy stands in its way; what protects the name is the certificate (ADR 12)."""
    anybody = world.token_user()
    assert world.outcome(cluster, world.ask(cluster, anybody, world.node_request(NAME))) == "Approved,Issued"
    Kubelet(cluster).posts("True")
    assert not _free(cluster.client(anybody), cluster)
    passes(cluster, 50)
    assert _free(cluster.client(anybody), cluster)
    denied = world.outcome(cluster, world.ask(cluster, anybody, world.node_request(NAME)))
    assert denied.startswith("Denied") and f"kubevouch token create --node-name {NAME}" in denied
    token = generate_token()
    plan = bootstrap_token.plan(token, now=cluster.clock.now(), bounds=token_bounds.parse(node_names=[NAME]))
    cluster.run(bootstrap_token.create(cluster.server.client, plan))
    uid = cluster.get("Secret", token.secret_name, "kube-system").metadata.uid
    user = world.token_user(token.token_id)
    bound = UserInfo(user.name, groups=user.groups, extra={TOKEN_UID_EXTRA: (uid,)})
    assert world.outcome(cluster, world.ask(cluster, bound, world.node_request(NAME))) == "Approved,Issued"
