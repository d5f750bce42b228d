from __future__ import annotations

import pytest

from kubevouch.api.core_v1 import (
    Node,
    NodeAddress,
    NodeSpec,
    NodeStatus,
    Taint,
    default_node,
    validate_node,
    validate_node_update,
)
from kubevouch.machinery.declaration import Quantity
from kubevouch.machinery.text.times import Time


def with_spec(**fields: object) -> Node:
    return Node(spec=NodeSpec(**fields))  # type: ignore[arg-type]  # the table's values are of many types


def faults(node: Node) -> list[str]:
    return [str(error) for error in validate_node(node)]


def update_faults(new: Node, old: Node) -> list[str]:
    return [str(error) for error in validate_node_update(new, old)]


def test_defaults() -> None:
    capacity = {"cpu": Quantity("2")}
    assert default_node(Node(status=NodeStatus(capacity=capacity))).status.allocatable == capacity
    assert default_node(with_spec(pod_cidr="10.0.0.0/24")).spec.pod_cidrs == ["10.0.0.0/24"]
    assert default_node(with_spec(pod_cidrs=["10.0.0.0/24", "fd00::/64"])).spec.pod_cidr == "10.0.0.0/24"
    given = with_spec(pod_cidr="10.0.0.0/24", pod_cidrs=["10.1.0.0/24"])
    assert default_node(given) is given


@pytest.mark.parametrize(
    ("taints", "texts"),
    [
        ([Taint(key="a/b", value="v", effect="NoSchedule"), Taint(key="a/b", effect="NoExecute")], []),
        ([Taint(key="k")], ["metadata.taints[0].effect: Required value"]),
        (
            [Taint(key="k", effect="Sometimes")],
            [
                (
                    'metadata.taints[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", '
                    '"PreferNoSchedule", "NoExecute"'
                )
            ],
        ),
        (
            [Taint(key="k", effect="NoExecute"), Taint(key="k", value="2", effect="NoExecute", time_added=Time(0))],
            [
                (
                    'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"2","Effect":"NoExecute",'
                    '"TimeAdded":"1970-01-01T00:00:00Z"}: taints must be unique by key and effect pair'
                )
            ],
        ),
    ],
)
def test_taints(taints: list[Taint], texts: list[str]) -> None:
    assert faults(with_spec(taints=taints)) == texts
    assert update_faults(with_spec(taints=taints), Node()) == texts


def test_taint_key_and_value_are_label_like() -> None:
    [key, value] = faults(with_spec(taints=[Taint(key="", value="a b", effect="NoSchedule")]))[-2:]
    assert key.startswith('metadata.taints[0].key: Invalid value: "": name part')
    assert value.startswith('metadata.taints[0].value: Invalid value: "a b": a valid label must be')


@pytest.mark.parametrize(
    ("cidrs", "texts"),
    [
        (["10.0.0.0/24"], []),
        (["10.0.0.0/24", "fd00::/64"], []),
        (["10.0.0.9/24"], []),
        (
            ["10.0.0.0/33"],
            [
                (
                    'spec.podCIDRs[0]: Invalid value: "10.0.0.0/33": must be a valid CIDR value, '
                    "(e.g. 10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            ["10.0.0.0"],
            [
                (
                    'spec.podCIDRs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, '
                    "(e.g. 10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            ["10.0.0.0/24", "10.0.0.0/24"],
            [
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24"]: may specify no more than one CIDR '
                    "for each IP family"
                ),
                'spec.podCIDRs[1]: Duplicate value: "10.0.0.0/24"',
            ],
        ),
    ],
)
def test_pod_cidrs(cidrs: list[str], texts: list[str]) -> None:
    assert faults(with_spec(pod_cidrs=cidrs)) == texts


@pytest.mark.parametrize(
    ("name", "quantity", "texts"),
    [
        ("cpu", "1500m", []),
        ("pods", "110", []),
        ("pods", "1k", []),
        ("pods", "1.5Ki", []),
        ("pods", "1e3", []),
        ("pods", "1E", []),
        ("pods", "1e999999999", []),
        ("ephemeral-storage", "10Gi", []),
        ("cpu", "-0.0m", []),
        ("cpu", "cores", []),
        ("memory", "-1Ki", ['status.capacity.memory: Invalid value: "-1Ki": must be greater than or equal to 0']),
        ("cpu", "-1", ['status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0']),
        ("pods", "1500m", ['status.capacity.pods: Invalid value: "1500m": must be an integer']),
        ("example.com/gpu", "0.5", ['status.capacity.example.com/gpu: Invalid value: "0.5": must be an integer']),
    ],
)
def test_resources(name: str, quantity: str, texts: list[str]) -> None:
    node = Node(status=NodeStatus(capacity={name: Quantity(quantity)}))
    assert faults(node) == texts
    assert update_faults(node, Node()) == texts


def test_an_address_stands_once() -> None:
    addresses = [
        NodeAddress(type="InternalIP", address="10.0.0.9"),
        NodeAddress(type="ExternalIP", address="10.0.0.9"),
        NodeAddress(type="InternalIP", address="10.0.0.9"),
    ]
    node = Node(status=NodeStatus(addresses=addresses))
    assert update_faults(node, Node()) == [
        'status.addresses[2]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.9"}'
    ]
    # Kubernetes looks only when a Node changes.
    assert faults(node) == []


CIDRS_FROZEN = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'


@pytest.mark.parametrize(
    ("new", "old", "texts"),
    [
        (with_spec(pod_cidrs=["10.0.0.0/24"], provider_id="p://1"), Node(), []),
        (with_spec(pod_cidrs=["10.1.0.0/24"]), with_spec(pod_cidrs=["10.0.0.0/24"]), [CIDRS_FROZEN]),
        (Node(), with_spec(pod_cidrs=["10.0.0.0/24", "fd00::/64"]), [CIDRS_FROZEN]),
        (
            with_spec(pod_cidrs=["10.1.0.0/24", "fd01::/64"]),
            with_spec(pod_cidrs=["10.0.0.0/24", "fd00::/64"]),
            [CIDRS_FROZEN, CIDRS_FROZEN],
        ),
        (
            with_spec(provider_id="p://2"),
            with_spec(provider_id="p://1"),
            ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
        ),
        (with_spec(external_id="x"), Node(), ["spec.externalID: Forbidden: may not be updated"]),
        (with_spec(unschedulable=True), Node(), []),
    ],
)
def test_what_cannot_change(new: Node, old: Node, texts: list[str]) -> None:
    assert update_faults(new, old) == texts
