"""Pod: an empty collection, for kubelets to watch (columns: pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Pod
from kubevouch.registry.interface import NO_WORKLOADS, READ_VERBS, Column, Definition, Printer, Strategy, Subresource
from kubevouch.registry.printing import AGE, NAME, NONE, age, or_none


def _cells(pod: Pod, now: dt.datetime) -> list[object]:
    return [
        pod.metadata.name,
        f"0/{len(pod.spec.containers or ())}",
        pod.status.reason or pod.status.phase,
        "0",
        age(pod.metadata.creation_timestamp, now),
        or_none(pod.status.pod_ip),
        or_none(pod.spec.node_name),
        NONE,
        NONE,
    ]


DEFINITION = Definition(
    resource=catalog.PODS,
    strategy=Strategy[Pod](),
    printer=Printer(
        (
            NAME,
            Column("Ready", description="How many of its containers are ready."),
            Column("Status", description="Where in its life it is."),
            Column("Restarts", description="How often its containers were started again."),
            AGE,
            Column("IP", description="Its address.", priority=1),
            Column("Node", description="The node it runs on.", priority=1),
            Column("Nominated Node", description="The node it is to run on.", priority=1),
            Column("Readiness Gates", description="How many of its readiness gates are passed.", priority=1),
        ),
        _cells,
    ),
    subresources=(Subresource("status", Strategy[Pod](), verbs=("get",)),),
    selectable_fields={
        "spec.nodeName": lambda obj: obj.spec.node_name,
        "spec.restartPolicy": lambda obj: obj.spec.restart_policy,
        "spec.schedulerName": lambda obj: obj.spec.scheduler_name,
        "spec.serviceAccountName": lambda obj: obj.spec.service_account_name,
        "spec.hostNetwork": lambda obj: "true" if obj.spec.host_network else "false",
        "status.phase": lambda obj: obj.status.phase,
        "status.podIP": lambda obj: obj.status.pod_ip,
        "status.podIPs": lambda obj: obj.status.pod_ip,
        "status.nominatedNodeName": lambda _obj: "",
    },
    categories=("all",),
    verbs=READ_VERBS,
    refuses_creation=NO_WORKLOADS,
)
