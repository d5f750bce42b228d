"""Objects of Cluster API are read in both versions, and what is malformed in them opens nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch import wellknown
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.text.times import Time
from kubevouch.policy.cluster_api import (
    Bootstrap,
    ClusterFacts,
    Reference,
    bootstrap_of,
    cluster_of,
    has_nodes,
    machine_of,
    members_of,
)
from kubevouch.policy.inventory import Identity, Machine

CLUSTER = ClusterFacts(namespace="fleet", name="prod", attests=True, attestors=("tpm",))
ATTESTS = wellknown.KUBELET_AUTHENTICATION_ANNOTATION
INFRA_BETA_1 = {
    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachine", "name": "docker-7",
    "namespace": "fleet",
}  # fmt: skip
INFRA_BETA_2 = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "docker-7"}
ADDRESSES = [
    {"type": "Hostname", "address": "ip-10-0-0-7"},
    {"type": "InternalDNS", "address": "ip-10-0-0-7.compute.internal"},
    {"type": "InternalIP", "address": "10.0.0.7"},
    {"type": "ExternalIP", "address": "2001:DB8::7"},
]


def obj(name: str, content: dict[str, Any], **metadata: Any) -> CustomObject:
    return CustomObject(metadata=ObjectMeta(name=name, namespace="fleet", **metadata), content=content)


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def a_machine(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> CustomObject:
    return obj("prod-md-0-7", {"spec": {"clusterName": "prod", **(spec or {})}, "status": status}, **metadata)


@pytest.mark.parametrize(
    ("infrastructure", "ready"),
    [
        (INFRA_BETA_1, {"bootstrapReady": True}),
        (INFRA_BETA_1, {"conditions": [{"type": "Ready", "status": "False"}, condition("BootstrapReady", "True")]}),
        (INFRA_BETA_2, {"initialization": {"bootstrapDataSecretCreated": True}}),
        (INFRA_BETA_2, {"conditions": [condition("BootstrapConfigReady", "True")]}),
    ],
)  # fmt: skip
def test_a_machine_before_it_is_a_node(infrastructure: dict[str, Any], ready: dict[str, Any]) -> None:
    found = machine_of(
        a_machine(
            {"addresses": ADDRESSES, **ready},
            {"infrastructureRef": infrastructure, "providerID": "demo://7"},
            labels={"cluster.x-k8s.io/set-name": "s", "cluster.x-k8s.io/deployment-name": "prod-md-0"},
        ),
        CLUSTER,
    )
    assert found == Machine(
        names=("ip-10-0-0-7", "ip-10-0-0-7.compute.internal", "prod-md-0-7", "docker-7"),
        provider_id="demo://7",
        cluster="fleet/prod",
        group="prod-md-0",
        attestors=("tpm",),
        addresses=("10.0.0.7", "2001:db8::7"),
        dns_names=("ip-10-0-0-7", "ip-10-0-0-7.compute.internal"),
        source="machine/fleet/prod-md-0-7",
    )


@pytest.mark.parametrize("status", [
    {}, {"bootstrapReady": "true"}, {"bootstrapReady": False}, {"initialization": {"bootstrapDataSecretCreated": 1}},
    {"initialization": [], "conditions": {}},
    # The condition counts before what was true once.
    {"bootstrapReady": True, "conditions": [condition("BootstrapReady", "False")]},
    {"bootstrapReady": True, "conditions": [condition("BootstrapReady", "Unknown")]},
])  # fmt: skip
def test_a_machine_waits_for_its_bootstrap_data(status: dict[str, Any]) -> None:
    found = machine_of(a_machine(status), CLUSTER)
    assert found is not None
    assert (found.ready, found.waits_for) == (False, "the bootstrap data of its Machine is not ready")


def test_a_machine_that_is_a_node_has_that_name_and_no_other() -> None:
    status = {"nodeRef": {"name": "ip-10-0-0-7"}, "addresses": ADDRESSES}
    found = machine_of(a_machine(status, labels={"cluster.x-k8s.io/control-plane": ""}), CLUSTER)
    assert found is not None
    assert (found.node_name, found.names, found.ready, found.control_plane) == ("ip-10-0-0-7", (), True, True)


def test_a_machine_that_is_being_deleted_joins_no_more_and_renews() -> None:
    leaving: dict[str, Any] = {"deletion_timestamp": Time.parse("2031-01-01T00:00:00Z")}
    joining = machine_of(a_machine({"bootstrapReady": True}, **leaving), CLUSTER)
    node = machine_of(a_machine({"nodeRef": {"name": "n"}}, **leaving), CLUSTER)
    assert joining is not None
    assert node is not None
    assert (joining.ready, joining.waits_for, node.ready) == (False, "its Machine is being deleted", True)


def test_machines_of_other_clusters_and_namespaces_are_none_of_ours() -> None:
    assert machine_of(a_machine({}, {"clusterName": "other"}), CLUSTER) is None
    elsewhere = CustomObject(
        metadata=ObjectMeta(name="m", namespace="other"), content={"spec": {"clusterName": "prod"}}
    )
    assert machine_of(elsewhere, CLUSTER) is None
    assert members_of(elsewhere, CLUSTER) == ()
    assert machine_of(obj("m", {}), CLUSTER) is None


@pytest.mark.parametrize("status", [
    {"nodeRef": {"name": "No_Node"}}, {"nodeRef": ["a"]}, {"nodeRef": {"name": 7}}, {"nodeRef": {"name": "a" * 2000}},
    {"addresses": [{"type": "Hostname", "address": "UPPER_case"}, {"type": "InternalIP", "address": "10.0.0"}, 7, {}]},
    {"addresses": {"type": "InternalIP"}},
])  # fmt: skip
def test_what_is_malformed_is_absent(status: dict[str, Any]) -> None:
    found = machine_of(a_machine(status, {"providerID": 7, "infrastructureRef": "docker"}), CLUSTER)
    assert found is not None
    assert (found.node_name, found.names, found.addresses, found.dns_names, found.provider_id) == (
        "", ("prod-md-0-7",), (), (), "",
    )  # fmt: skip


def test_the_members_of_a_pool_are_known_by_their_provider_ids() -> None:
    pool = obj("pool-1", {
        "spec": {"clusterName": "prod", "providerIDList": ["demo://1", "demo://2", "demo://1", 7, ""]},
        "status": {"bootstrapReady": True},
    })  # fmt: skip
    first, second = members_of(pool, CLUSTER)
    assert first == Machine(
        provider_id="demo://1",
        cluster="fleet/prod",
        group="pool-1",
        attestors=("tpm",),
        source="machinepool/fleet/pool-1",
    )
    assert second.provider_id == "demo://2"
    assert not has_nodes(pool)


def test_a_pool_waits_and_ends_as_machines_do() -> None:
    def first(status: dict[str, Any], **metadata: Any) -> Machine:
        spec = {"clusterName": "prod", "providerIDList": ["demo://1"]}
        return members_of(obj("pool-1", {"spec": spec, "status": status}, **metadata), CLUSTER)[0]

    leaving: dict[str, Any] = {"deletion_timestamp": Time.parse("2031-01-01T00:00:00Z")}
    assert first({}).waits_for == "the bootstrap data of its MachinePool is not ready"
    assert first({"nodeRefs": [{"name": "a"}]}).ready
    assert first({"nodeRefs": [{"name": "a"}]}, **leaving).waits_for == "its MachinePool is being deleted"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("tpm=sha256:07", (Identity("tpm", "sha256:07"),)),
        ("tpm=sha256:07, spiffe=spiffe://a/b=c", (Identity("tpm", "sha256:07"), Identity("spiffe", "spiffe://a/b=c"))),
        # Nobody is let in because a word is misspelt.
        ("", (Identity("", ""),)),
        ("tpm", (Identity("", ""),)),
        ("tpm=", (Identity("", ""),)),
        ("tpm=a,", (Identity("", ""),)),
        (",".join(["tpm=a"] * 17), (Identity("", ""),)),
    ],
)
def test_what_a_machine_has_to_prove_that_it_is(annotation: str, expected: tuple[Identity, ...]) -> None:
    found = machine_of(a_machine({}, annotations={wellknown.IDENTITIES_ANNOTATION: annotation}), CLUSTER)
    assert found is not None
    assert found.identities == expected


# ------------------------------------------------------------------ Cluster


@pytest.mark.parametrize(
    ("spec", "annotations", "attests", "attestors"),
    [
        ({}, {}, False, None),
        ({"security": {"kubeletAuthentication": True, "authorizedAttestors": ["contosoCloud"]}}, {}, True,
         ("contosoCloud",)),
        ({"security": {"kubeletAuthentication": False}}, {ATTESTS: "true"}, False, None),
        ({}, {ATTESTS: "true", wellknown.AUTHORIZED_ATTESTORS_ANNOTATION: "tpm, aws"}, True, ("tpm", "aws")),
        ({}, {ATTESTS: "false"}, False, None),
        # What cannot be read changes nothing, and a list of nothing readable allows nothing.
        ({}, {ATTESTS: "True"}, None, None),
        ({"security": {"kubeletAuthentication": "yes"}}, {}, None, None),
        ({"security": {"kubeletAuthentication": True, "authorizedAttestors": [7]}}, {}, True, ("",)),
        ({"security": {"kubeletAuthentication": True, "authorizedAttestors": []}}, {}, True, None),
    ],
)  # fmt: skip
def test_what_a_cluster_asks_of_its_machines(
    spec: dict[str, Any], annotations: dict[str, str], attests: bool | None, attestors: tuple[str, ...] | None
) -> None:
    found = cluster_of(obj("prod", {"spec": spec}, annotations=annotations))
    assert (found.attests, found.attestors, found.key) == (attests, attestors, "fleet/prod")


@pytest.mark.parametrize("reference", [INFRA_BETA_1, INFRA_BETA_2])
def test_where_the_infrastructure_of_a_cluster_is(reference: dict[str, Any]) -> None:
    found = cluster_of(obj("prod", {"spec": {"infrastructureRef": reference, "paused": True}}))
    expected = Reference("infrastructure.cluster.x-k8s.io", "DockerMachine", "fleet", "docker-7")
    assert (found.infrastructure, found.paused) == (expected, True)
    assert cluster_of(obj("prod", {}, annotations={"cluster.x-k8s.io/paused": ""})).paused


# ------------------------------------------------------------------ KubeadmConfig


def a_config(**metadata: Any) -> CustomObject:
    token = {"token": "p9k2zq.w7e1r5t3y9u8i0oa", "caCertHashes": ["sha256:ab"]}
    return obj("prod-md-0-7", {
        "spec": {"joinConfiguration": {"discovery": {"bootstrapToken": token}}},
        "status": {"dataSecretName": "prod-md-0-7"},
    }, **{"labels": {"cluster.x-k8s.io/cluster-name": "prod"}, **metadata})  # fmt: skip


def owned_by(kind: str, group: str = "cluster.x-k8s.io/v1beta2") -> list[OwnerReference]:
    return [OwnerReference(api_version=group, kind=kind, name="owner", uid="u")]


@pytest.mark.parametrize("kind", ["Machine", "MachinePool"])
def test_a_kubeadm_config_has_an_owner_and_a_token(kind: str) -> None:
    assert bootstrap_of(a_config(owner_references=owned_by(kind)), CLUSTER) == Bootstrap(
        namespace="fleet",
        name="prod-md-0-7",
        owner=Reference("cluster.x-k8s.io", kind, "fleet", "owner"),
        token="p9k2zq.w7e1r5t3y9u8i0oa",
        data_secret="prod-md-0-7",
    )


@pytest.mark.parametrize(
    "config",
    [
        a_config(),
        a_config(owner_references=owned_by("MachineSet")),
        a_config(owner_references=owned_by("Machine", "example.com/v1")),
        a_config(owner_references=owned_by("Machine"), labels={"cluster.x-k8s.io/cluster-name": "other"}),
    ],
)
def test_configs_of_nobody_and_of_other_clusters_are_none_of_ours(config: CustomObject) -> None:
    assert bootstrap_of(config, CLUSTER) is None


def test_a_control_plane_that_begins_a_cluster_has_no_token() -> None:
    config = obj("cp", {"spec": {"clusterConfiguration": {}}}, labels={"cluster.x-k8s.io/cluster-name": "prod"},
                 owner_references=owned_by("Machine"))  # fmt: skip
    found = bootstrap_of(config, CLUSTER)
    assert found is not None
    assert (found.token, found.data_secret) == ("", "")
