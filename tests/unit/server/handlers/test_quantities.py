"""A node's resources, as JSON and as protobuf, are stored in the form in which Kubernetes writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubevouch.api.core_v1.nodes import Node, NodeStatus
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.declaration import Quantity
from kubevouch.machinery.meta import ObjectMeta
from unit.server.handlers.api import API, MERGE, tree
from wire import Reply

NODES = "/api/v1/nodes"
REGULAR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def node(name: str, **capacity: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}


def as_protobuf(api: API, name: str, **capacity: str) -> Reply:
    resources = {each: Quantity(text) for each, text in capacity.items()}
    made = Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity=resources))
    body = protobuf.seal("v1", "Node", protobuf.codec_for(Node).encode(made))
    return api.request("POST", NODES, body, Content_Type=PROTOBUF)


@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_what_is_stored(api: API, form: str) -> None:
    if form == "json":
        made = api.json("POST", NODES, node("j", cpu=0.5, memory="1024Mi", pods=110, gpu="100u"))
    else:
        made = as_protobuf(api, "p", cpu="0.5", memory="1024Mi", pods="110", gpu="100u")
    assert made.code == 201
    expected = {"cpu": "500m", "memory": "1Gi", "pods": "110", "gpu": "1m"}
    assert tree(made)["status"]["capacity"] == tree(made)["status"]["allocatable"] == expected
    name = tree(made)["metadata"]["name"]
    change = {"status": {"allocatable": {"memory": "512Mi", "cpu": "1500m"}}}
    changed = api.json("PATCH", f"{NODES}/{name}/status", change, Content_Type=MERGE)
    assert tree(changed)["status"]["allocatable"] == expected | {"memory": "512Mi", "cpu": "1500m"}
    same = {"status": {"capacity": {"memory": "1048576Ki", "cpu": "0.50"}}}
    again = api.json("PATCH", f"{NODES}/{name}/status", same, Content_Type=MERGE)
    # The same amounts in other words are no change.
    assert json.loads(again.body) == json.loads(changed.body)


@pytest.mark.parametrize(("text", "why"), [("lots", REGULAR), ("1mm", "unable to parse quantity's suffix")])
def test_what_is_refused(api: API, text: str, why: str) -> None:
    message = f'Node in version "v1" cannot be handled as a Node: {why}'
    assert api.json("POST", NODES, node("bad", memory=text)).told == (400, "BadRequest", message)
    assert as_protobuf(api, "bad", memory=text).told == (400, "BadRequest", message)
