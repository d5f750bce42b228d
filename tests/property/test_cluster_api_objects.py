"""Whatever stands in objects of Cluster API is read, or counts as absent; names and ids are what they should be."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.text import names
from kubevouch.policy.cluster_api import (
    ClusterFacts,
    bootstrap_of,
    cluster_of,
    config_of,
    has_nodes,
    machine_of,
    members_of,
    signers_of,
)

_KEYS = st.sampled_from([
    "spec", "status", "security", "kubeletAuthentication", "authorizedAttestors", "infrastructureRef", "apiVersion",
    "apiGroup", "kind", "name", "paused", "clusterName", "nodeRef", "nodeRefs", "addresses", "type", "address",
    "conditions", "initialization", "bootstrapDataSecretCreated", "providerID", "providerIDList", "bootstrap",
    "configRef", "template", "joinConfiguration", "discovery", "bootstrapToken", "token", "dataSecretName",
])  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from([
        "prod", "True", "Hostname", "InternalIP", "10.0.0.1", "UPPER", "a" * 2000, "", "BootstrapReady", "tpm",
    ]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
_TREES = st.fixed_dictionaries({}, optional={"spec": _VALUES, "status": _VALUES})
_CLUSTER = ClusterFacts(namespace="default", name="prod")


@given(_TREES, st.dictionaries(st.sampled_from(["kubevouch.io/kubelet-authentication"]), st.text(max_size=5)))
def test_any_object_is_read(tree: dict[str, Any], annotations: dict[str, str]) -> None:
    spec = tree.get("spec")
    if isinstance(spec, dict):
        tree = {**tree, "spec": {**spec, "clusterName": "prod"}}
    owner = OwnerReference(api_version="cluster.x-k8s.io/v1beta2", kind="Machine", name="m", uid="u")
    meta = ObjectMeta(
        name="m", namespace="default", annotations=annotations, owner_references=[owner],
        labels={"cluster.x-k8s.io/cluster-name": "prod"},
    )  # fmt: skip
    obj = CustomObject(metadata=meta, content=tree)
    facts = cluster_of(obj)
    assert facts.attests in (True, False, None)
    assert not signers_of(facts, ("tpm",)).client or facts.attests
    machine = machine_of(obj, _CLUSTER)
    if machine is not None:
        assert all(not names.subdomain(each) for each in (*machine.names, *machine.dns_names))
        assert not machine.node_name or not names.subdomain(machine.node_name)
        assert len(machine.provider_id) <= 1024
        assert machine.ready is not bool(machine.waits_for)
    assert all(each.provider_id for each in members_of(obj, _CLUSTER))
    assert isinstance(config_of(obj), str)
    assert isinstance(has_nodes(obj), bool)
    found = bootstrap_of(obj, _CLUSTER)
    assert found is None or isinstance(found.token, str)
