"""registry/resource: devices and claims on them are stored, and nothing is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubevouch.api import catalog
from kubevouch.api.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kubevouch.machinery.errors import APIStatusError
from kubevouch.testing import Cluster

API = {"apiVersion": "resource.k8s.io/v1"}
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "fast", "selectors": [{"cel": {"expression": "true"}}]}}
CONFIG = {"opaque": {"driver": "d.example.com", "parameters": {"kind": "Any", "a": [1]}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def claim(name: str, **devices: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    return {**API, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": devices}}


def test_a_claim_is_kept_and_what_it_asks_for_stays(cluster: Cluster) -> None:
    config = [{"requests": ["gpu"], **CONFIG}]
    made = cluster.create(claim("kept", requests=[REQUEST], config=config))
    exactly = made.spec.devices.requests[0].exactly
    assert exactly is not None and (exactly.allocation_mode, exactly.count) == ("ExactCount", 1)
    assert cluster.get(catalog.RESOURCE_CLAIMS, "kept", "default") == made
    stays = made.spec.devices.config[0].opaque
    assert stays is not None and stays.parameters is not None and b"Any" in stays.parameters.raw
    bare = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, devices=type(made.spec.devices)()))
    with pytest.raises(APIStatusError, match=r"field is immutable"):
        cluster.update(bare)


def test_its_status_is_that_of_drivers_and_schedulers(cluster: Cluster) -> None:
    made = cluster.create(claim("used", requests=[REQUEST]))
    printer = cluster.server.api.stores["resourceclaims"].definition.printer
    assert printer.cells(made, cluster.clock.now())[1] == "pending"
    status = ResourceClaimStatus(
        allocation=AllocationResult(),
        reserved_for=[ResourceClaimConsumerReference(resource="pods", name="p", uid="1")],
        devices=[AllocatedDeviceStatus(driver="d", pool="p", device="x")],
    )
    used = cluster.update(msgspec.structs.replace(made, status=status), subresource="status")
    assert used.status == status and used.spec == made.spec
    assert printer.cells(used, cluster.clock.now())[1] == "allocated,reserved"
    again = cluster.update(msgspec.structs.replace(used, status=ResourceClaimStatus()))
    assert again.status == status


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"name": "Not A Label", "exactly": {"deviceClassName": "c"}}, "spec.devices.requests[0].name: Invalid value"),
        ({"name": "a"}, "exactly one of `exactly` or `firstAvailable` is required"),
        ({"name": "a", "exactly": {"deviceClassName": ""}}, "deviceClassName: Required value"),
    ],
)
def test_what_is_no_claim(cluster: Cluster, request_: dict[str, Any], fault: str) -> None:
    template = {**API, "kind": "ResourceClaimTemplate", "metadata": {"name": "bad", "namespace": "default"}}
    spec = {"devices": {"requests": [request_]}}
    with pytest.raises(APIStatusError) as caught:
        cluster.create(claim("bad", requests=[request_]))
    assert caught.value.code == 422 and fault in str(caught.value)
    with pytest.raises(APIStatusError) as caught:
        cluster.create({**template, "spec": {"spec": spec}})
    assert caught.value.code == 422 and fault.replace("spec.devices", "spec.spec.devices") in str(caught.value)


def test_a_template_and_a_class(cluster: Cluster) -> None:
    template = {**API, "kind": "ResourceClaimTemplate", "metadata": {"name": "t", "namespace": "default"}}
    made = cluster.create({**template, "spec": {"spec": {"devices": {"requests": [REQUEST]}}}})
    changed = msgspec.structs.replace(made, spec=type(made.spec)())
    with pytest.raises(APIStatusError, match=r"field is immutable"):
        cluster.update(changed)
    kind = {**API, "kind": "DeviceClass", "metadata": {"name": "fast"}}
    cluster.create({**kind, "spec": {"selectors": [{"cel": {"expression": "true"}}], "config": [CONFIG]}})
    assert cluster.get(catalog.DEVICE_CLASSES, "fast").spec.config[0].opaque is not None


def test_a_slice(cluster: Cluster) -> None:
    kind = {**API, "kind": "ResourceSlice", "metadata": {"name": "s"}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    device = {
        "name": "gpu-0",
        "attributes": {"model": {"string": "x"}, "n": {"int": 3}},
        "capacity": {"m": {"value": "1Gi"}},
    }
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n1", "devices": [device]}
    made = cluster.create({**kind, "spec": spec})
    assert made.spec.devices[0].attributes["n"].int_value == 3
    moved = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_name="n2"))
    with pytest.raises(APIStatusError, match=r'spec\.nodeName: Invalid value: "n2": field is immutable'):
        cluster.update(moved)
    for wrong in ({"nodeName": None}, {"allNodes": True}, {"driver": "Not A Name"}, {"pool": {**pool, "name": ""}}):
        with pytest.raises(APIStatusError) as caught:
            cluster.create({**kind, "metadata": {"name": "wrong"}, "spec": {**spec, **wrong}})
        assert caught.value.code == 422
