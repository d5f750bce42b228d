"""Kinds of which there is never an object, because nothing here runs pods: what clients list and watch all the same.

Of their content clients get to see that there is a spec, where there is one; more would describe nothing.
Names, scopes and short names: k8s.io/api and pkg/registry (Kubernetes 1.36).
"""

from __future__ import annotations

import types
from typing import Annotated, Any, NamedTuple

from kubevouch.machinery.declaration import RawJSON, wire
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource


class EmptyKind(NamedTuple):
    """Args: ``columns``: those of a table, by commas; what is in parentheses shows with ``-o wide`` only. ``older``:
    another group version in which it is served."""

    group_version: str
    kind: str
    plural: str
    columns: str
    short_names: str = ""
    namespaced: bool = True
    in_all: bool = False
    has_spec: bool = True
    older: str = ""


_PODS = "(Containers), (Images), (Selector)"
_APPS, _BATCH, _NETWORKING, _STORAGE = "apps/v1", "batch/v1", "networking.k8s.io/v1", "storage.k8s.io/v1"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"

EMPTY_KINDS: tuple[EmptyKind, ...] = (
    EmptyKind("v1", "PersistentVolume", "persistentvolumes", "Name, Capacity, Access Modes, Reclaim Policy, Status,"
              " Claim, StorageClass, VolumeAttributesClass, Reason, Age, (VolumeMode)", "pv", namespaced=False),
    EmptyKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "Name, Status, Volume, Capacity, Access Modes,"
              " StorageClass, VolumeAttributesClass, Age, (VolumeMode)", "pvc"),
    EmptyKind("v1", "PodTemplate", "podtemplates", "Name, Containers, Images, Pod Labels", has_spec=False),
    EmptyKind("v1", "ReplicationController", "replicationcontrollers", f"Name, Desired, Current, Ready, Age, {_PODS}",
              "rc", in_all=True),
    EmptyKind("apiregistration.k8s.io/v1", "APIService", "apiservices", "Name, Service, Available, Age",
              namespaced=False),
    EmptyKind(_APPS, "ControllerRevision", "controllerrevisions", "Name, Controller, Revision, Age", has_spec=False),
    EmptyKind(_APPS, "DaemonSet", "daemonsets", "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector,"
              f" Age, {_PODS}", "ds", in_all=True),
    EmptyKind(_APPS, "Deployment", "deployments", f"Name, Ready, Up-to-date, Available, Age, {_PODS}", "deploy",
              in_all=True),
    EmptyKind(_APPS, "ReplicaSet", "replicasets", f"Name, Desired, Current, Ready, Age, {_PODS}", "rs", in_all=True),
    EmptyKind(_APPS, "StatefulSet", "statefulsets", "Name, Ready, Age, (Containers), (Images)", "sts", in_all=True),
    EmptyKind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
              "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age", "hpa", in_all=True, older="autoscaling/v1"),
    EmptyKind(_BATCH, "CronJob", "cronjobs", "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age,"
              f" {_PODS}", "cj", in_all=True),
    EmptyKind(_BATCH, "Job", "jobs", f"Name, Status, Completions, Duration, Age, {_PODS}", in_all=True),
    EmptyKind(_NETWORKING, "IngressClass", "ingressclasses", "Name, Controller, Parameters, Age", namespaced=False),
    EmptyKind(_NETWORKING, "Ingress", "ingresses", "Name, Class, Hosts, Address, Ports, Age", "ing"),
    EmptyKind(_NETWORKING, "IPAddress", "ipaddresses", "Name, ParentRef", "ip", namespaced=False),
    EmptyKind(_NETWORKING, "NetworkPolicy", "networkpolicies", "Name, Pod-Selector, Age", "netpol"),
    EmptyKind(_NETWORKING, "ServiceCIDR", "servicecidrs", "Name, CIDRs, Age", namespaced=False),
    EmptyKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets",
              "Name, Min Available, Max Unavailable, Allowed Disruptions, Age", "pdb"),
    EmptyKind(_STORAGE, "CSIStorageCapacity", "csistoragecapacities", "Name, StorageClassName, Capacity",
              has_spec=False),
    EmptyKind(_STORAGE, "StorageClass", "storageclasses", "Name, Provisioner, ReclaimPolicy, VolumeBindingMode,"
              " AllowVolumeExpansion, Age", "sc", namespaced=False, has_spec=False),
    EmptyKind(_STORAGE, "VolumeAttachment", "volumeattachments", "Name, Attacher, PV, Node, Attached, Age",
              namespaced=False),
    EmptyKind(_STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "Name, DriverName, Age", "vac",
              namespaced=False, has_spec=False),
    EmptyKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses",
              "Name, Value, Global-Default, Age, PreemptionPolicy", "pc", namespaced=False, has_spec=False),
    EmptyKind(_FLOW_CONTROL, "FlowSchema", "flowschemas",
              "Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL", namespaced=False),
    EmptyKind(_FLOW_CONTROL, "PriorityLevelConfiguration", "prioritylevelconfigurations",
              "Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age", namespaced=False),
)  # fmt: skip


def _struct(kind: EmptyKind, group: str, version: str) -> type[Object]:
    fields: dict[str, Any] = {}
    if kind.has_spec:
        fields = {"spec": Annotated[RawJSON | None, wire(2, "What is wanted.")]}
    # Schemas are called after the module of a group version.
    home = f"kubevouch.api.{group.partition('.')[0] or 'core'}_{version}"
    body: dict[str, Any] = {"__annotations__": fields, "__module__": home, "__doc__": f"A {kind.kind}: there is none."}
    body |= dict.fromkeys(fields)
    return types.new_class(kind.kind, (Object,), exec_body=lambda namespace: namespace.update(body))


def resource_of(kind: EmptyKind) -> Resource[Any]:
    group, _, version = kind.group_version.rpartition("/")
    return Resource(
        group, version, kind.kind, kind.plural, _struct(kind, group, version), kind.namespaced,
        short_names=(kind.short_names,) if kind.short_names else (),
    )  # fmt: skip
