"""Node: what each way of writing changes, and its columns."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.core_v1 import Node
from kubevouch.registry.core import nodes
from unit.registry.core.objects import CONTEXT, cells, read


def test_status_and_the_rest_of_a_node_are_written_apart() -> None:
    old = read(Node, spec={"podCIDR": "10.0.0.0/24"}, status={"phase": "Pending"})
    new = read(Node, spec={"unschedulable": True, "configSource": {}}, status={"phase": "Running", "config": {}})
    plain = nodes.DEFINITION.strategy.prepare_for_update(CONTEXT, new, old)
    assert (plain.spec.unschedulable, plain.spec.config_source) == (True, None)
    assert plain.status == old.status
    found = nodes.DEFINITION.subresource("status")
    assert found is not None
    status = found.strategy.prepare_for_update(CONTEXT, new, old)
    assert status.spec == old.spec
    assert (status.status.phase, status.status.config) == ("Running", None)
    made = nodes.DEFINITION.strategy.prepare_for_create(CONTEXT, new)
    assert (made.spec.config_source, made.status.config) == (None, None)


@pytest.mark.parametrize(
    ("tree", "status"),
    [
        ({}, "Unknown"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "NotReady"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "NotReady"),
        ({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}, "Unknown"),
        ({"spec": {"unschedulable": True}}, "Unknown,SchedulingDisabled"),
    ],
)
def test_a_nodes_status_column(tree: dict[str, Any], status: str) -> None:
    assert cells(nodes.DEFINITION, read(Node, **tree))[1] == status


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({}, "<none>"),
        ({"node-role.kubernetes.io/worker": ""}, "worker"),
        ({"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "x"}, "a,b"),
        ({"node-role.kubernetes.io/": ""}, "<none>"),
        ({"kubernetes.io/role": "old", "node-role.kubernetes.io/worker": ""}, "old,worker"),
    ],
)
def test_a_nodes_roles_column(labels: dict[str, str], roles: str) -> None:
    assert cells(nodes.DEFINITION, read(Node, metadata={"labels": labels}))[2] == roles


def test_a_nodes_wide_row() -> None:
    status = {
        "nodeInfo": {"kubeletVersion": "v1.36.2", "osImage": "Debian"},
        "addresses": [
            {"type": "Hostname", "address": "h"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "10.0.0.2"},
        ],
    }
    assert cells(nodes.DEFINITION, read(Node, status=status)) == [
        "a", "Unknown", "<none>", "5m", "v1.36.2", "10.0.0.1", "<none>", "Debian", "<unknown>", "<unknown>"
    ]  # fmt: skip
    assert [column.priority for column in nodes.DEFINITION.printer.columns] == [0] * 5 + [1] * 5


@pytest.mark.parametrize(("spec", "value"), [({}, "false"), ({"unschedulable": True}, "true")])
def test_a_node_is_selected_by_whether_it_takes_work(spec: dict[str, Any], value: str) -> None:
    assert nodes.DEFINITION.selectable_fields["spec.unschedulable"](read(Node, spec=spec)) == value
