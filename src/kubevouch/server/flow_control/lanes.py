"""Which lane a request takes, and which flow of that lane it belongs to.

Kubernetes' priority levels put bootstrap tokens and anonymous readers of cluster-info into one level with everybody
else (apiserver apis/flowcontrol/bootstrap/default.go, 1.36). Here who keeps an identity alive comes before who wants
one, both before who reads collections, and the anonymous have a lane that cannot grow into the others'.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kubevouch import wellknown
from kubevouch.authentication.interface import UserInfo
from kubevouch.records.node_recovery import RECOVERERS_GROUP
from kubevouch.server.request_info import RequestInfo

_PROBES = ("/livez", "/readyz", "/healthz")
_COLLECTIONS = frozenset({"list", "watch", "deletecollection"})
_CONTROL_PLANE = frozenset(
    {wellknown.KUBE_CONTROLLER_MANAGER_USER, wellknown.KUBE_SCHEDULER_USER, wellknown.API_SERVER_USER}
)
_SYSTEM_ACCOUNTS = f"{wellknown.SERVICE_ACCOUNTS_GROUP_PREFIX}{wellknown.KUBE_SYSTEM_NAMESPACE}"


class Lane(StrEnum):
    """The lanes by priority, highest first. Names of lanes are values of the metric label ``priority_level``."""

    EXEMPT = "exempt"
    CONTROLLERS = "controllers"
    RENEWAL = "renewal"
    JOIN = "join"
    WORKLOAD = "workload"
    LISTS = "lists"
    # A turn before authentication, for sources that sent too many bad credentials.
    SUSPECT = "suspect"
    ANONYMOUS = "anonymous"


class LaneLimits(msgspec.Struct, frozen=True):
    """What a lane may use.

    Args:
        share: its part of all seats, of 100; others may use what it leaves free.
        borrows: whether it may use what others leave free.
        per_turn: what those that start in one turn of the event loop may weigh together, so that requests in great
            number do not keep the loop from others; None is without limit.
        flow_seats: the part of the lane's seats, of 100, that one flow may hold.
        flow_queue, queue: how many may wait, of one flow and of all.
        wait: seconds after which who waits is sent away.
    """

    share: int
    borrows: bool = True
    per_turn: int | None = None
    flow_seats: int = 50
    flow_queue: int = 256
    queue: int = 4096
    # A quarter of Kubernetes' request timeout of 60 s, as with its flow control.
    wait: float = 15.0


DEFAULT_LIMITS: Mapping[Lane, LaneLimits] = {
    Lane.CONTROLLERS: LaneLimits(share=15),
    # A dozen certificate requests: some 20 ms.
    Lane.RENEWAL: LaneLimits(share=25, per_turn=64),
    Lane.JOIN: LaneLimits(share=25, per_turn=64, flow_seats=80, flow_queue=2048),
    Lane.WORKLOAD: LaneLimits(share=20, per_turn=16),
    Lane.LISTS: LaneLimits(share=10, per_turn=2, flow_queue=128),
    Lane.SUSPECT: LaneLimits(share=5, borrows=False, per_turn=4, flow_seats=100, flow_queue=1024),
    Lane.ANONYMOUS: LaneLimits(share=5, borrows=False, per_turn=4, flow_seats=100, flow_queue=1024),
}


def classify(info: RequestInfo, user: UserInfo, source: str) -> tuple[Lane, str]:
    """Lane and flow of an authenticated request from ``source`` (a prefix: ``util.addresses``)."""
    name, groups = user.name, user.groups
    if name == wellknown.ANONYMOUS_USER:
        # Probes and cluster discovery do not wait behind whatever else one address asks for.
        if info.path.startswith(_PROBES):
            return Lane.ANONYMOUS, f"{source} probes"
        cluster_info = info.resource == "configmaps" and info.name == wellknown.CLUSTER_INFO_CONFIGMAP
        return Lane.ANONYMOUS, f"{source} cluster-info" if cluster_info else source
    if wellknown.MASTERS_GROUP in groups:
        return Lane.EXEMPT, ""
    if name in _CONTROL_PLANE or _SYSTEM_ACCOUNTS in groups:
        return Lane.CONTROLLERS, name
    if info.verb in _COLLECTIONS and not info.name:
        return Lane.LISTS, name
    if wellknown.NODES_GROUP in groups:
        return Lane.RENEWAL, name
    if name.startswith(wellknown.BOOTSTRAP_USER_PREFIX) or RECOVERERS_GROUP in groups:
        # Machines of one fleet share a token; who has stolen it sends from elsewhere.
        return Lane.JOIN, f"{name} {source}"
    return Lane.WORKLOAD, name
