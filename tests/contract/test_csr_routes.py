"""Each way to write a CertificateSigningRequest changes its own part and nothing else, whatever it is given."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller_world import fixture
from kubevouch.testing import Cluster
from throwaway_ca import ThrowawayCA
from wire import CSRS, Wire

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
OTHER_SPEC: dict[str, Any] = {
    "request": base64.b64encode(fixture("serving-good.csr")).decode(),
    "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
    "expirationSeconds": 86400,
    "usages": ["server auth"],
    "username": "system:admin",
    "uid": "another",
    "groups": ["system:masters"],
    "extra": {"scopes": ["all"]},
}
APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
FAILED = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}
# What each route may write of the status.
WRITES = {"": set(), "/approval": {"Approved"}, "/status": {"Failed", "certificate"}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Cluster(https=True) as cluster:
        yield Wire.of_kubeconfig(cluster.kubeconfig, tmp_path_factory.mktemp("pair"))


def _made(api: Wire, name: str) -> dict[str, Any]:
    request = base64.b64encode(fixture("client-good.csr")).decode()
    spec = {"request": request, "signerName": "example.com/a", "usages": ["digital signature", "client auth"]}
    reply = api.json("POST", CSRS, {"metadata": {"name": name}, "spec": spec})
    assert reply.code == 201, reply.body
    found: dict[str, Any] = json.loads(reply.body)
    return found


def _send(api: Wire, how: str, path: str, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    if how == "put":
        reply = api.json("PUT", path, before | after)
    elif how == "merge":
        reply = api.request("PATCH", path, json.dumps(after).encode(), MERGE)
    else:
        changes = [{"op": "add", "path": f"/{part}", "value": value} for part, value in after.items()]
        reply = api.request("PATCH", path, json.dumps(changes).encode(), JSON_PATCH)
    assert reply.code == 200, reply.body
    return dict(json.loads(api.request("GET", path.removesuffix("/status").removesuffix("/approval")).body))


@pytest.mark.parametrize("how", ["put", "merge", "json"])
@pytest.mark.parametrize("route", WRITES)
def test_no_route_changes_the_spec(api: Wire, route: str, how: str) -> None:
    name = f"spec-{how}{route.replace('/', '-')}"
    before = _made(api, name)
    stored = _send(api, how, f"{CSRS}/{name}{route}", before, {"spec": OTHER_SPEC})
    assert stored["spec"] == before["spec"]


@pytest.mark.parametrize("field", OTHER_SPEC)
@pytest.mark.parametrize("route", WRITES)
def test_no_route_changes_one_field_of_the_spec(api: Wire, route: str, field: str) -> None:
    name = f"{field.lower()}{route.replace('/', '-')}"
    before = _made(api, name)
    stored = _send(api, "merge", f"{CSRS}/{name}{route}", before, {"spec": {field: OTHER_SPEC[field]}})
    assert stored["spec"] == before["spec"]


@pytest.mark.parametrize("how", ["put", "merge"])
@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("", {"conditions": [APPROVED], "certificate": ThrowawayCA().bundle}),
        ("/approval", {"conditions": [APPROVED], "certificate": ThrowawayCA().bundle}),
        ("/status", {"conditions": [FAILED], "certificate": ThrowawayCA().bundle}),
    ],
)
def test_each_route_writes_its_own_part_of_the_status(api: Wire, route: str, status: dict[str, Any], how: str) -> None:
    name = f"status-{how}{route.replace('/', '-')}"
    before = _made(api, name)
    sent = status | {"certificate": base64.b64encode(status["certificate"]).decode()}
    stored = _send(api, how, f"{CSRS}/{name}{route}", before, {"status": sent})
    written = {each["type"] for each in stored["status"].get("conditions", ())}
    assert written | ({"certificate"} & stored["status"].keys()) == WRITES[route]
