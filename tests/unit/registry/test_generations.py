"""registry/resource/generations.py: which changes count, of these kinds and of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubevouch.machinery.meta import replace_metadata
from kubevouch.testing import Cluster

RESOURCE = {"apiVersion": "resource.k8s.io/v1"}
ADMISSION = {"apiVersion": "admissionregistration.k8s.io/v1"}
SLICE = {"driver": "d.example.com", "nodeName": "n1", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
BINDING = {"policyName": "a", "validationActions": ["Deny"]}
COUNTED: list[dict[str, Any]] = [
    {**RESOURCE, "kind": "DeviceClass", "spec": {"extendedResourceName": "example.com/gpu"}},
    {**RESOURCE, "kind": "ResourceSlice", "spec": SLICE},
    {**ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "spec": BINDING},
    {**ADMISSION, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "a"}},
    {**ADMISSION, "kind": "ValidatingWebhookConfiguration", "webhooks": []},
]  # fmt: skip
NOT_COUNTED: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Node"},
    {"apiVersion": "v1", "kind": "Namespace"},
    {"apiVersion": "v1", "kind": "ConfigMap"},
    {"apiVersion": "v1", "kind": "Secret"},
    {"apiVersion": "v1", "kind": "ServiceAccount"},
    {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {}},
    {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}},
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []},
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "a"},
    {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {"drivers": []}},
    {**RESOURCE, "kind": "ResourceClaim", "spec": {}},
    {**RESOURCE, "kind": "ResourceClaimTemplate", "spec": {"spec": {}}},
]
NAMESPACED = ("ConfigMap", "Secret", "ServiceAccount", "ResourceQuota", "LimitRange", "Lease", "ResourceClaim",
              "ResourceClaimTemplate")  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def made(cluster: Cluster, tree: dict[str, Any], name: str = "x", **meta: Any) -> Any:
    where = {"namespace": "default"} if tree["kind"] in NAMESPACED else {}
    return cluster.create({**tree, "metadata": {"name": name, **where, **meta}})


@pytest.mark.parametrize("tree", COUNTED, ids=lambda tree: str(tree["kind"]))
def test_it_is_one_at_first_and_labels_do_not_count(cluster: Cluster, tree: dict[str, Any]) -> None:
    first = made(cluster, tree, generation=7)
    labelled = cluster.update(replace_metadata(first, labels={"a": "b"}, generation=9))
    assert (first.metadata.generation, labelled.metadata.generation) == (1, 1)


@pytest.mark.parametrize("tree", NOT_COUNTED, ids=lambda tree: str(tree["kind"]))
def test_most_kinds_do_not_count(cluster: Cluster, tree: dict[str, Any]) -> None:
    first = made(cluster, tree, "uncounted")
    assert cluster.update(replace_metadata(first, labels={"a": "b"})).metadata.generation == 0


def test_each_change_of_spec_counts(cluster: Cluster) -> None:
    first, part = made(cluster, COUNTED[0], "changing"), made(cluster, COUNTED[1], "changing")
    spec = msgspec.structs.replace(first.spec, extended_resource_name="example.com/tpu")
    assert cluster.update(msgspec.structs.replace(first, spec=spec)).metadata.generation == 2
    spec = msgspec.structs.replace(part.spec, pool=msgspec.structs.replace(part.spec.pool, generation=2))
    assert cluster.update(msgspec.structs.replace(part, spec=spec)).metadata.generation == 2


def test_a_deletion_that_waits_counts_once(cluster: Cluster) -> None:
    made(cluster, COUNTED[0], "kept", finalizers=["example.com/f"])
    made(cluster, NOT_COUNTED[2], "kept", finalizers=["example.com/f"])
    for _ in range(2):
        cluster.delete("DeviceClass", "kept")
        cluster.delete("ConfigMap", "kept", "default")
    assert cluster.get("DeviceClass", "kept").metadata.generation == 2
    assert cluster.get("ConfigMap", "kept", "default").metadata.generation == 0
