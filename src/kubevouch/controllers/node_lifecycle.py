"""node-lifecycle-controller: says of a Node whose kubelet has gone silent that nobody knows how it is, and taints it.

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go (Kubernetes 1.36). Left out is what only pods need:
the rate at which zones are tainted NoExecute, its stop when no node at all is ready, and marking pods not ready.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import LEASES, NODES
from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.events import NORMAL
from kubevouch.api.core_v1.nodes import NO_EXECUTE, NO_SCHEDULE, READY, NodeCondition, Taint
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import Allowance, EventRecorder
from kubevouch.controllers.interface import DONE, Context, IgnorableError, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.node_lifecycle")

NAME = wellknown.NODE_LIFECYCLE_CONTROLLER
NODE_STARTUP_GRACE_PERIOD = dt.timedelta(minutes=1)
"""How long a kubelet that has never said how its node is may take (--node-startup-grace-period)."""

# What only kubelets know; NetworkUnavailable is the network add-on's.
_OBSERVED = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
# By type and status of a condition: the key of the taint that goes with it.
_TAINTS = {
    (READY, wellknown.CONDITION_FALSE): wellknown.NOT_READY_TAINT,
    (READY, wellknown.CONDITION_UNKNOWN): wellknown.UNREACHABLE_TAINT,
    ("MemoryPressure", wellknown.CONDITION_TRUE): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", wellknown.CONDITION_TRUE): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", wellknown.CONDITION_TRUE): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", wellknown.CONDITION_TRUE): "node.kubernetes.io/pid-pressure",
}
_UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
_OURS = {(key, NO_SCHEDULE) for key in (*_TAINTS.values(), _UNSCHEDULABLE_TAINT)}
_EVICTING = {(key, NO_EXECUTE) for key in (wellknown.NOT_READY_TAINT, wellknown.UNREACHABLE_TAINT)}


# ------------------------------------------------------------------ rules


def ready_condition(node: Node) -> NodeCondition | None:
    return next((each for each in node.status.conditions if each.type == READY), None)


def with_unknown(node: Node, now: dt.datetime) -> Node:
    """``node`` after its kubelet has gone silent; the same object if that is said already."""
    said, moment = {each.type: each for each in node.status.conditions}, Time.of(now)
    for kind in _OBSERVED:
        former = said.get(kind)
        if former is None:
            said[kind] = NodeCondition(
                type=kind,
                status=wellknown.CONDITION_UNKNOWN,
                reason="NodeStatusNeverUpdated",
                message="Kubelet never posted node status.",
                last_heartbeat_time=node.metadata.creation_timestamp,
                last_transition_time=moment,
            )
        elif former.status != wellknown.CONDITION_UNKNOWN:
            said[kind] = msgspec.structs.replace(
                former,
                status=wellknown.CONDITION_UNKNOWN,
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                last_transition_time=moment,
            )
    conditions = list(said.values())
    if conditions == node.status.conditions:
        return node
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=conditions))


def with_taints(node: Node, now: dt.datetime) -> Node:
    """``node`` with the taints that its conditions ask for, and without those they no longer do; others stay.

    The same object if nothing changes.
    """
    wanted, governed = set(), set(_OURS)
    for condition in node.status.conditions:
        if key := _TAINTS.get((condition.type, condition.status)):
            wanted.add((key, NO_SCHEDULE))
    if node.spec.unschedulable:
        wanted.add((_UNSCHEDULABLE_TAINT, NO_SCHEDULE))
    ready = ready_condition(node)
    if ready is not None:
        # A node that has never said how it is keeps nobody's pods away who are there already.
        governed |= _EVICTING
        if key := _TAINTS.get((READY, ready.status)):
            wanted.add((key, NO_EXECUTE))
    present = [(taint.key, taint.effect) for taint in node.spec.taints]
    kept = [
        taint
        for taint, which in zip(node.spec.taints, present, strict=True)
        if which in wanted or which not in governed
    ]
    added = [Taint(key=key, effect=effect, time_added=Time.of(now)) for key, effect in sorted(wanted - set(present))]
    if not added and len(kept) == len(node.spec.taints):
        return node
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=[*kept, *added]))


# ------------------------------------------------------------------ the controller


class Heartbeats:
    """When something new was last heard of each node, by this process's own clock: a node's may be wrong.

    A handler of Leases; a new heartbeat in a Node's status counts as much.
    """

    def __init__(self, nodes: Lister[Node], clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        # By node: monotonic seconds, from a Lease or a status, whichever came last.
        self._heard: dict[str, float] = {}
        # By node: the UID and the heartbeat of the last status that was looked at.
        self._statuses: dict[str, tuple[str, Time | None]] = {}

    def silence(self, node: Node) -> float:
        """Seconds since something was heard; from the first look at a node on, so that a start is no death."""
        name, ready = node.metadata.name, ready_condition(node)
        status = (node.metadata.uid, None if ready is None else ready.last_heartbeat_time)
        if name not in self._heard or self._statuses.get(name) != status:
            self._statuses[name] = status
            self._hear(name)
        return self._clock.monotonic() - self._heard[name]

    def forget(self, name: str) -> None:
        self._heard.pop(name, None)
        self._statuses.pop(name, None)

    def _hear(self, name: str) -> None:
        self._heard[name] = self._clock.monotonic()

    def on_add(self, obj: Lease, *, initial: bool) -> None:  # noqa: ARG002 - whoever was there before may have died since
        self._hear(obj.metadata.name)

    def on_update(self, old: Lease, new: Lease) -> None:
        if _renewed(old.spec.renew_time, new.spec.renew_time):
            self._hear(new.metadata.name)

    def on_delete(self, obj: Lease, *, missed: bool) -> None:  # noqa: ARG002
        if self._nodes.get(obj.metadata.name) is None:
            self.forget(obj.metadata.name)


def _renewed(former: MicroTime | None, latest: MicroTime | None) -> bool:
    """Only forward: whoever puts an old Lease back has not heard of the node."""
    return latest is not None and (former is None or former.datetime() < latest.datetime())


class NodeLifecycle:
    """Args: ``grace_period`` is how long a node that has been heard of may be silent."""

    def __init__(
        self, client: Client, nodes: Lister[Node], heartbeats: Heartbeats, clock: Clock, grace_period: dt.timedelta
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._heartbeats = heartbeats
        self._clock = clock
        self._grace_period = grace_period
        self._events = EventRecorder(client, clock, NAME)
        self._allowance = Allowance(clock)

    async def reconcile(self, request: Request) -> Result:
        node = self._nodes.get(request.name)
        if node is None:
            self._heartbeats.forget(request.name)
            return DONE
        ready, silence = ready_condition(node), self._heartbeats.silence(node)
        left = (NODE_STARTUP_GRACE_PERIOD if ready is None else self._grace_period).total_seconds() - silence
        if left <= 0:
            node = await self._write(node, with_unknown(node, self._clock.now()), "status")
            if ready is not None and ready.status == wellknown.CONDITION_TRUE:
                await self._tell(node)
        await self._write(node, with_taints(node, self._clock.now()), "")
        # Who is silent is looked at again when its kubelet writes.
        return Result(left) if left > 0 else DONE

    async def _write(self, node: Node, changed: Node, subresource: str) -> Node:
        if changed is node:
            return node
        try:
            return await self._client.update(NODES, changed, subresource=subresource)
        except APIStatusError as err:
            if err.code in (404, 409):
                # The kubelet was faster; its word is the newer one.
                raise IgnorableError(f"error updating node {node.metadata.name}: {err}") from err
            raise

    async def _tell(self, node: Node) -> None:
        name = node.metadata.name
        log.warning("a node is silent", node=name)
        if self._allowance.take():
            return
        about = ObjectReference(kind=NODES.kind, api_version=NODES.api_version, name=name, uid=node.metadata.uid)
        await self._events.record(about, NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")


def _requests(node: Node) -> Iterable[Request]:
    return (request_of(node),)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    nodes = context.informers.informer(NODES, client=client)
    leases = context.informers.informer(LEASES, client=client, namespace=wellknown.KUBE_NODE_LEASE_NAMESPACE)
    heartbeats = Heartbeats(nodes.lister, context.clock)
    lifecycle = NodeLifecycle(client, nodes.lister, heartbeats, context.clock, context.node_monitor_grace_period)
    controller = QueueController(NAME, lifecycle, context.clock)
    controller.watch(nodes, on_add=_requests, on_update=_requests, on_delete=_requests)
    controller.follow(leases, heartbeats)
    return controller
