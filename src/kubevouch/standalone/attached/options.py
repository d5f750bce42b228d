"""The settings of attached controllers.

AttachedError          the controllers cannot start here; ``hint`` says what to do
└── AttachedOptionsError    … because of a setting; nothing was asked of any cluster
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Literal

import msgspec

from kubevouch.api.core_v1.nodes import NODE_MONITOR_GRACE_PERIOD
from kubevouch.client.leader_election import ElectionOptions
from kubevouch.client.rest_config import RESTConfig
from kubevouch.server.edge.tls import TLSOptions
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.standalone.options import DEFAULT_SERVICE_CLUSTER_IP_RANGE, ClusterSigning, IdentityOptions

DEFAULT_CONTROLLERS = ("*",)
IN_CLUSTER: Literal["cluster"] = "cluster"
"""In place of a file: the ledger is in the cluster's own objects, for all programs that work for it."""
DEFAULT_QPS, DEFAULT_BURST = 20.0, 30
"""kube-controller-manager's, for each controller."""

DEFAULT_PORT = 10267
"""Of health and metrics. kube-controller-manager has 10257, and the next two are other parts of a control plane."""


class AttachedError(Exception):
    """The controllers cannot start here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AttachedOptionsError(AttachedError):
    """A setting cannot be meant; nothing was asked of any cluster."""


class AttachedCluster(msgspec.Struct, frozen=True):
    """A cluster to work for. ``name`` tells several apart, in metrics, logs and checks; the only one may have none."""

    name: str
    config: RESTConfig


class ServingOptions(msgspec.Struct, frozen=True):
    """Where health and metrics are served.

    Args:
        port: None serves nothing, 0 lets the system pick one.
        files: certificate and key; None serves with a pair of this process, for which nobody vouches.
        is_plain: HTTP without TLS, and without asking who asks: on a loopback address only.
        open_paths: are answered to everybody; one that ends in ``*`` is all that begin so.
    """

    bind_address: str = "0.0.0.0"  # noqa: S104 - kube-controller-manager's; whoever scrapes is on another machine
    port: int | None = DEFAULT_PORT
    files: tuple[Path, Path] | None = None
    tls: TLSOptions = msgspec.field(default_factory=TLSOptions)
    is_plain: bool = False
    open_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")


class AttachedOptions(msgspec.Struct, frozen=True):
    """What ``kubevouch controllers`` can be told.

    Args:
        controllers: as ``controllers.catalog.select`` reads it; ``*`` are those that fight nobody.
        election: None leads without asking, for those who run one process and know it.
        signing: which CAs sign; without files, only what signers of the cluster's own objects do.
        approval: what decides about requests for certificates.
        cluster_api: where Cluster API's objects are; None without it.
        service_cluster_ip_range: the addresses of Services, which no kubelet serves at.
        ledger: the file in which decisions and certificates are written down, or :data:`IN_CLUSTER`; None keeps them
            in memory.
        root_ca_file: what the publishers of a CA publish; None publishes nothing.
        qps, burst: requests a second of each controller, and at once; a ``qps`` of 0 or less bounds nothing.
        authority: whom to ask about those who ask for metrics; None is the first cluster.
        assume_off: controllers that the operator says kube-controller-manager does not run.
    """

    clusters: tuple[AttachedCluster, ...]
    controllers: tuple[str, ...] = DEFAULT_CONTROLLERS
    election: ElectionOptions | None = msgspec.field(default_factory=ElectionOptions)
    signing: ClusterSigning = msgspec.field(default_factory=ClusterSigning)
    identity: IdentityOptions = msgspec.field(default_factory=IdentityOptions)
    approval: ApprovalOptions = msgspec.field(default_factory=ApprovalOptions)
    cluster_api: ClusterAPIOptions | None = None
    service_cluster_ip_range: str = DEFAULT_SERVICE_CLUSTER_IP_RANGE
    ledger: Path | Literal["cluster"] | None = None
    root_ca_file: Path | None = None
    node_monitor_grace_period: dt.timedelta = NODE_MONITOR_GRACE_PERIOD
    qps: float = DEFAULT_QPS
    burst: int = DEFAULT_BURST
    serving: ServingOptions = msgspec.field(default_factory=ServingOptions)
    authority: RESTConfig | None = None
    assume_off: tuple[str, ...] = ()
