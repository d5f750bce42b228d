"""Machines are read as kubectl would apply them, and nothing of a document that is wrong in part."""

from __future__ import annotations

import datetime as dt

import pytest

from kubevouch.policy import inventory
from kubevouch.policy.inventory import Identity, InventoryError, Machine

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: AllowedMachine\n"
RACK = f"""{HEAD}metadata: {{name: rack-3}}
spec:
  nodeName: worker-7
  addresses: [10.0.0.7, "fd00::7"]
  dnsNames: [worker-7.example.com]
  attributes: {{rack: "3"}}
  providerID: metal://rack-3/7
  identities: [{{provider: tpm, identity: "sha256:07"}}]
  group: storage
  notAfter: 2026-06-02T00:00:00Z
---
{HEAD}spec: {{nodeName: worker-8}}
"""


def test_machines_of_several_documents() -> None:
    first, second = inventory.read(RACK.encode(), "file/racks")
    assert first == Machine(
        node_name="worker-7",
        provider_id="metal://rack-3/7",
        identities=(Identity("tpm", "sha256:07"),),
        group="storage",
        addresses=("10.0.0.7", "fd00::7"),
        dns_names=("worker-7.example.com",),
        attributes={"rack": "3"},
        not_after=dt.datetime(2026, 6, 2, tzinfo=dt.UTC),
        source="file/racks",
    )
    assert second == Machine(node_name="worker-8", source="file/racks")


def test_a_list_as_kubectl_prints_it() -> None:
    text = b'{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "kubevouch.io/v1alpha1", \
"kind": "AllowedMachine", "metadata": {"name": "a"}, "spec": {"nodeName": "n1"}}]}'
    assert [each.node_name for each in inventory.read(text, "url/cmdb")] == ["n1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a", "machine 1: got array, expected kubevouch.io/v1alpha1 AllowedMachine"),
        ("kind: Node\napiVersion: v1", "machine 1: got v1 Node, expected kubevouch.io/v1alpha1 AllowedMachine"),
        (f"{HEAD}spec: {{}}", "machine 1: spec.nodeName: Required value"),
        (f"{HEAD}spec: {{nodeName: a, adresses: [10.0.0.1]}}", 'machine 1: unknown field "spec.adresses"'),
        (f"{HEAD}spec: {{nodeName: a, addresses: [10.0.0]}}", "must be an IP address"),
        (f"{HEAD}spec: {{nodeName: a, keys: [abc]}}", "machine 1: spec.keys"),
        (f"{HEAD}spec: {{nodeName: a}}\n---\n{HEAD}spec: {{nodeName: [b]}}", "machine 2: spec.nodeName"),
        ("a: [", "no YAML"),
        ("kind: List\nitems: 7", "machine 1: got number"),
    ],
)
def test_what_is_wrong_is_told(text: str, why: str) -> None:
    with pytest.raises(InventoryError) as caught:
        inventory.read(text.encode(), "file/racks")
    assert why in str(caught.value)


def test_more_than_one_document_may_hold_is_refused() -> None:
    with pytest.raises(InventoryError, match="expected at most"):
        inventory.read(b"#" * (inventory.MAX_BYTES + 1), "file/racks")


def test_a_machine_is_expected_until_its_moment() -> None:
    machines = inventory.read(RACK.encode(), "file/racks")
    assert [each.node_name for each in inventory.current(machines, NOW)] == ["worker-7", "worker-8"]
    assert [each.node_name for each in inventory.current(machines, NOW + dt.timedelta(days=2))] == ["worker-8"]
