"""The kinds that are there for kubelets: CSINode, which they write, and those of which there is never one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Pod, PodSpec
from kubevouch.api.core_v1.containers import Container
from kubevouch.api.resource_v1 import ResourcePool, ResourceSlice, ResourceSliceSpec
from kubevouch.api.storage_v1 import CSINode, CSINodeDriver, CSINodeSpec
from kubevouch.client.interface import APPLY_PATCH, ListOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.registry.core import pods
from kubevouch.registry.resource import resourceslices
from kubevouch.testing import Cluster

NODES = ("system:nodes",)
EMPTY = (
    catalog.PODS,
    catalog.CSI_DRIVERS,
    *catalog.EMPTY.values(),
)
COLUMNS = {
    "pods": "Name Ready Status Restarts Age IP Node Nominated-Node Readiness-Gates",
    "services": "Name Type Cluster-IP External-IP Port(s) Age Selector",
    "csidrivers": "Name AttachRequired PodInfoOnMount StorageCapacity TokenRequests RequiresRepublish Modes Age",
    "csinodes": "Name Drivers Age",
    "runtimeclasses": "Name Handler Age",
    "resourceslices": "Name Node Driver Pool Age",
    "deviceclasses": "Name Age",
    "resourceclaims": "Name State Age",
    "resourceclaimtemplates": "Name Age",
    "customresourcedefinitions": "Name Created-At",
    "clustertrustbundles": "Name SignerName",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def _on_node(name: str) -> ListOptions:
    return ListOptions(field_selector=f"spec.nodeName={name}")


def csi_node(name: str, *drivers: str) -> CSINode:
    spec = CSINodeSpec(drivers=[CSINodeDriver(name=driver, node_id="n-1") for driver in drivers])
    return CSINode(metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize("resource", EMPTY, ids=lambda each: each.plural)
def test_nobody_can_create_what_only_workloads_need(cluster: Cluster, resource: Resource[Any]) -> None:
    namespace = "default" if resource.namespaced else ""
    obj = resource.type(metadata=ObjectMeta(name="x", namespace=namespace))
    applied = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}}
    client = cluster.client()
    for attempt in (
        client.create(resource, obj),
        client.patch(resource, "x", applied, APPLY_PATCH, namespace),
    ):
        with pytest.raises(APIStatusError) as caught:
            cluster.run(attempt)
        refusal = f'create is not supported on resources of kind "{resource.group_resource}": '
        reason = cluster.server.api.stores[resource.plural].definition.refuses_creation
        assert (caught.value.code, str(caught.value)) == (405, refusal + reason)
    assert cluster.list(resource) == []
    assert cluster.server.api.stores[resource.plural].definition.verbs == ("get", "list", "watch")


def test_who_may_not_create_a_pod_hears_that_first(cluster: Cluster) -> None:
    with pytest.raises(APIStatusError) as caught:
        cluster.as_user("somebody").create(Pod(metadata=ObjectMeta(name="x", namespace="default")))
    assert caught.value.code == 403


def test_a_node_writes_its_own_csi_node(cluster: Cluster) -> None:
    node = cluster.as_user("system:node:n1", NODES)
    made = node.create(csi_node("n1", "csi.example.com"))
    spec = msgspec.structs.replace(
        made.spec, drivers=[*(made.spec.drivers or ()), CSINodeDriver(name="b", node_id="i")]
    )
    assert len(node.update(msgspec.structs.replace(made, spec=spec)).spec.drivers or ()) == 2
    node.delete(catalog.CSI_NODES, "n1")


def test_a_node_does_not_write_that_of_another(cluster: Cluster) -> None:
    with pytest.raises(APIStatusError, match="can only access CSINode with the same name as the requesting node"):
        cluster.as_user("system:node:n1", NODES).create(csi_node("n2"))


def test_a_csi_node_is_validated(cluster: Cluster) -> None:
    with pytest.raises(APIStatusError) as caught:
        cluster.create(csi_node("n3", "a", "a"))
    assert str(caught.value) == ('CSINode.storage.k8s.io "n3" is invalid: spec.drivers[1].name: Duplicate value: "a"')


def test_a_node_clears_its_own_resource_slices(cluster: Cluster) -> None:
    client = cluster.client("system:node:n1", NODES)
    cluster.run(client.delete_collection(catalog.RESOURCE_SLICES, "", _on_node("n1")))
    with pytest.raises(APIStatusError, match="nodeName field selector"):
        cluster.run(client.delete_collection(catalog.RESOURCE_SLICES, "", _on_node("n2")))


def test_columns_are_those_of_kubernetes(cluster: Cluster) -> None:
    stores = cluster.server.api.stores
    shown = {plural: stores[plural].definition.printer.columns for plural in COLUMNS}
    assert {
        plural: " ".join(column.name.replace(" ", "-") for column in columns) for plural, columns in shown.items()
    } == COLUMNS


def test_cells_of_what_another_server_left_in_the_store(cluster: Cluster) -> None:
    now = Time.parse("2026-01-01T00:01:00Z").datetime()
    meta = ObjectMeta(name="x", creation_timestamp=Time.parse("2026-01-01T00:00:00Z"))
    pod = Pod(metadata=meta, spec=PodSpec(containers=[Container(name="c")], node_name="n1"))
    assert pods.DEFINITION.printer.cells(pod, now) == [
        "x", "0/1", "", "0", "60s", "<none>", "n1", "<none>", "<none>",
    ]  # fmt: skip
    spec = ResourceSliceSpec(driver="d", pool=ResourcePool(name="p"))
    cells = resourceslices.DEFINITION.printer.cells(ResourceSlice(metadata=meta, spec=spec), now)
    assert cells == ["x", "<unset>", "d", "p", "60s"]


def test_every_stored_kind_has_a_definition(cluster: Cluster) -> None:
    served = {store.definition.resource for store in cluster.server.api.stores.values()}
    assert served == {*catalog.STORED, *catalog.EMPTY.values()}
