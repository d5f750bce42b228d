"""S26: a node has its objects collected, or keeps what is to go: CVE-2025-5187 by every way in which one is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import replace_metadata
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.verbs import Verbs

NODE, NODES = "worker-1", ("system:nodes",)
GONE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "5d3cf1b8-4f79-4a4b-8d7c-0a3a3a3a3a3a"}
SELF = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "5d3cf1b8-4f79-4a4b-8d7c-0b3b3b3b3b3b"}
FINALIZERS = ["example.com/stay"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=("garbagecollector",)) as running:
        yield running


@pytest.fixture
def node(cluster: Cluster) -> Verbs:
    return cluster.as_user(f"system:node:{NODE}", NODES)


def manifest(kind: str, **metadata: Any) -> dict[str, Any]:
    """One of the objects that a node may make, as a kubelet makes it."""
    kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
        "Node": ("v1", "", {}),
        "CSINode": ("storage.k8s.io/v1", "", {"spec": {"drivers": []}}),
        "Lease": ("coordination.k8s.io/v1", "kube-node-lease", {"spec": {"holderIdentity": NODE}}),
        "Event": ("v1", "default", {"involvedObject": {"namespace": "default"}}),
    }
    version, namespace, more = kinds[kind]
    meta = {"name": NODE, **({"namespace": namespace} if namespace else {}), **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def refusal(act: Any, *args: Any) -> str:
    with pytest.raises(APIStatusError) as refused:
        act(*args)
    assert refused.value.code == 403
    return refused.value.status.message


@pytest.mark.parametrize("way", ["create", "apply", "update"])
@pytest.mark.parametrize("kind", ["Node", "CSINode", "Lease", "Event"])
@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [GONE]},
        {"ownerReferences": [{**SELF, "blockOwnerDeletion": True}]},
        {"ownerReferences": [{**SELF, "name": "worker-2"}]},
        {"finalizers": FINALIZERS},
    ],
    ids=["another-owner", "blocking-owner", "another-node", "finalizer"],
)
def test_a_node_makes_nothing_with_a_life_of_its_choice(
    cluster: Cluster, node: Verbs, kind: str, way: str, metadata: dict[str, Any]
) -> None:
    if way == "update":
        stored = cluster.create(manifest(kind))
        namespace = stored.metadata.namespace
        try:
            why = refusal(node.apply, manifest(kind, **metadata))
        finally:
            cluster.delete(kind, NODE, namespace)
    else:
        why = refusal(getattr(node, way), manifest(kind, **metadata))
    assert "ownerReferences" in why or "owner reference" in why or "finalizers" in why


def test_a_node_cannot_have_itself_collected_and_come_back_without_its_taint(cluster: Cluster, node: Verbs) -> None:
    assert "ownerReferences" in refusal(node.create, manifest("Node", ownerReferences=[GONE]))
    node.create(manifest("Node"))
    cluster.apply({**manifest("Node"), "spec": {"taints": [{"key": "quarantined", "effect": "NoSchedule"}]}})
    refusal(node.apply, manifest("Node", ownerReferences=[GONE]))
    refusal(node.delete, "Node", NODE)
    cluster.settle()
    assert [taint.key for taint in cluster.get("Node", NODE).spec.taints] == ["quarantined"]
    cluster.delete("Node", NODE)


def test_what_kubelets_set_passes(cluster: Cluster, node: Verbs) -> None:
    uid = node.create(manifest("Node")).metadata.uid
    owner = {**SELF, "uid": uid}
    for kind in ("CSINode", "Lease"):
        made = node.create(manifest(kind, ownerReferences=[owner]))
        node.update(made)
    cluster.settle()
    assert cluster.get("Lease", NODE, "kube-node-lease").metadata.owner_references
    cluster.delete("Node", NODE)
    cluster.settle()
    assert [lease for lease in cluster.list("Lease", "kube-node-lease") if lease.metadata.name == NODE] == []


def test_a_node_does_not_let_go_what_somebody_elses_finalizer_keeps(cluster: Cluster, node: Verbs) -> None:
    made = cluster.create(manifest("Node", finalizers=FINALIZERS))
    theirs = replace_metadata(node.get("Node", NODE), finalizers=[])
    assert "finalizers" in refusal(node.update, theirs)
    cluster.delete("Node", NODE)
    assert "finalizers" in refusal(node.update, theirs)
    assert cluster.get("Node", NODE).metadata.uid == made.metadata.uid
    cluster.update(replace_metadata(cluster.get("Node", NODE), finalizers=[]))
