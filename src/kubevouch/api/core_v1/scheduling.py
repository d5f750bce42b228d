"""Where a pod belongs.

Field numbers and order: k8s.io/api/core/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.nodes import NodeSelector, NodeSelectorTerm
from kubevouch.machinery.declaration import Int32, Int64, Struct, always, wire
from kubevouch.machinery.meta import LabelSelector


class Toleration(Struct):
    """Lets a pod onto nodes with a taint."""

    key: Annotated[str, wire(1, "The taint's key; empty means every key.")] = ""
    operator: Annotated[str, wire(2, "How key and value are compared.")] = ""
    value: Annotated[str, wire(3, "The taint's value.")] = ""
    effect: Annotated[
        str,
        wire(4, "The taint's effect; empty means every effect.", enum=("NoExecute", "NoSchedule", "PreferNoSchedule")),
    ] = ""
    toleration_seconds: Annotated[Int64 | None, wire(5, "How long NoExecute is tolerated.")] = None


class PreferredSchedulingTerm(Struct):
    """Nodes that are better."""

    weight: Annotated[Int32, wire(1, "How much better.", required=True)] = always(int)
    preference: Annotated[NodeSelectorTerm, wire(2, "The nodes.", required=True)] = always(NodeSelectorTerm)


class NodeAffinity(Struct):
    """Nodes that a pod belongs on."""

    required_during_scheduling_ignored_during_execution: Annotated[NodeSelector | None, wire(1, "Only those.")] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[PreferredSchedulingTerm], wire(2, "Those are better.", list_type="atomic")
    ] = []


class PodAffinityTerm(Struct):
    """Pods near which a pod belongs, or does not."""

    label_selector: Annotated[LabelSelector | None, wire(1, "Their labels.")] = None
    namespaces: Annotated[list[str], wire(2, "Their namespaces.", list_type="atomic")] = []
    topology_key: Annotated[str, wire(3, "The label of nodes that says what is near.", required=True)] = always(str)
    namespace_selector: Annotated[LabelSelector | None, wire(4, "Labels of their namespaces.")] = None
    match_label_keys: Annotated[list[str], wire(5, "Labels in which they equal this pod.", list_type="atomic")] = []
    mismatch_label_keys: Annotated[list[str], wire(6, "Labels in which they differ.", list_type="atomic")] = []


class WeightedPodAffinityTerm(Struct):
    """Places that are better."""

    weight: Annotated[Int32, wire(1, "How much better.", required=True)] = always(int)
    pod_affinity_term: Annotated[PodAffinityTerm, wire(2, "The pods that are there.", required=True)] = always(
        PodAffinityTerm
    )


class PodAffinity(Struct):
    """Pods that a pod belongs near."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], wire(1, "Only there.", list_type="atomic")
    ] = []
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], wire(2, "It is better there.", list_type="atomic")
    ] = []


class PodAntiAffinity(Struct):
    """Pods that a pod does not belong near."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], wire(1, "Never there.", list_type="atomic")
    ] = []
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], wire(2, "It is worse there.", list_type="atomic")
    ] = []


class Affinity(Struct):
    """Where a pod belongs."""

    node_affinity: Annotated[NodeAffinity | None, wire(1, "On which nodes.")] = None
    pod_affinity: Annotated[PodAffinity | None, wire(2, "Near which pods.")] = None
    pod_anti_affinity: Annotated[PodAntiAffinity | None, wire(3, "Not near which pods.")] = None


class TopologySpreadConstraint(Struct):
    """How pods are spread."""

    max_skew: Annotated[Int32, wire(1, "How uneven it may be.", required=True)] = always(int)
    topology_key: Annotated[str, wire(2, "The label of nodes over whose values they are spread.", required=True)] = (
        always(str)
    )
    when_unsatisfiable: Annotated[str, wire(3, "What happens when they cannot be.", required=True)] = always(str)
    label_selector: Annotated[LabelSelector | None, wire(4, "The pods that are counted.")] = None
    min_domains: Annotated[Int32 | None, wire(5, "Over so many values at least.")] = None
    node_affinity_policy: Annotated[str | None, wire(6, "Whether nodes that do not fit count.")] = None
    node_taints_policy: Annotated[str | None, wire(7, "Whether tainted nodes count.")] = None
    match_label_keys: Annotated[
        list[str], wire(8, "Labels in which counted pods equal this one.", list_type="atomic")
    ] = []


class PodSchedulingGate(Struct):
    """What keeps a pod from being placed."""

    name: Annotated[str, wire(1, "Its name.", required=True)] = always(str)
