from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.storage_v1 import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeNodeResources,
    default_csi_driver,
    validate_csi_node,
    validate_csi_node_update,
)
from kubevouch.machinery.codec import json_codec


def test_csi_nodes_print_as_in_go() -> None:
    assert json_codec.encode(CSINode()) == b'{"metadata":{},"spec":{"drivers":null}}'
    assert json_codec.encode(CSINodeDriver(name="n", node_id="i")) == b'{"name":"n","nodeID":"i","topologyKeys":null}'


def test_defaults_of_a_driver() -> None:
    driver = default_csi_driver(CSIDriver(spec=CSIDriverSpec(attach_required=False)))
    assert json_codec.encode(driver) == (
        b'{"metadata":{},"spec":{"attachRequired":false,"podInfoOnMount":false,"volumeLifecycleModes":["Persistent"],'
        b'"storageCapacity":false,"fsGroupPolicy":"ReadWriteOnceWithFSType","requiresRepublish":false,'
        b'"seLinuxMount":false}}'
    )
    assert default_csi_driver(driver) is driver


def node(*drivers: CSINodeDriver) -> CSINode:
    return CSINode(spec=CSINodeSpec(drivers=list(drivers)))


def driver(name: str = "csi.example.com", **more: Any) -> CSINodeDriver:
    return CSINodeDriver(name=name, **{"node_id": "i", **more})


@pytest.mark.parametrize(
    ("subject", "faults"),
    [
        (node(), []),
        (node(driver("CSI.example.com", topology_keys=["topology.example.com/zone"])), []),
        (
            node(driver(), driver()),
            ['spec.drivers[1].name: Duplicate value: "csi.example.com"'],
        ),
        (node(driver(node_id="")), ["spec.drivers[0].nodeID: Required value"]),
        (
            node(driver(node_id="i" * 193)),
            [f'spec.drivers[0].nodeID: Invalid value: "{"i" * 193}": must be 192 characters or less'],
        ),
        (
            node(driver(allocatable=VolumeNodeResources(count=-1))),
            ["spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (node(driver(topology_keys=["a", "a"])), ['spec.drivers[0]: Duplicate value: "a"']),
    ],
)
def test_rules_of_csi_nodes(subject: CSINode, faults: list[str]) -> None:
    assert [str(error) for error in validate_csi_node(subject)] == faults


@pytest.mark.parametrize(("name", "start"), [("", "Required value"), ("a" * 64, "Too long"), ("_", "Invalid value")])
def test_a_driver_needs_a_good_name(name: str, start: str) -> None:
    errors = [str(error) for error in validate_csi_node(node(driver(name)))]
    assert errors[0].startswith(f"spec.drivers[0].name: {start}")


def test_a_driver_changes_nothing_but_its_limit() -> None:
    old = node(driver(topology_keys=["zone"]), driver("other"))
    limited = driver(topology_keys=["zone"], allocatable=VolumeNodeResources(count=5))
    assert validate_csi_node_update(node(limited), old) == []
    assert validate_csi_node_update(node(driver("new")), old) == []
    [error] = validate_csi_node_update(node(driver(node_id="j", topology_keys=["zone"])), old)
    assert str(error) == (
        'CSINodeDriver: Invalid value: {"name":"csi.example.com","nodeID":"j","topologyKeys":["zone"]}: '
        "field is immutable"
    )
