"""What requests leave in the store: played against a kube-apiserver 1.36.2 on etcd, and here."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from aio import until
from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.storage_keys import prefix_part
from kubevouch.client.interface import Client
from kubevouch.machinery.codec import protobuf
from kubevouch.testing import Cluster

FIXTURES = Path(__file__).parents[1] / "vectors" / "etcd"
# Of kinds that are not served by default, or not created by clients; and one that this server writes itself.
ELSEWHERE = {
    "clustertrustbundle-unlinked", "podcertificaterequest", "csidriver-rich", "pod-rich", "priorityclass",
    "service-headless", "configmap-cluster-info",
    # Its definition has no fixture.
    "custom-cluster-scoped",
}  # fmt: skip
VOLATILE = {"uid", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "lastUpdateTime"}


def replayed() -> list[dict[str, Any]]:
    """Definitions and namespaces first."""
    found = [json.loads(path.read_text()) for path in sorted(FIXTURES.glob("*.json"))]
    found = [each for each in found if each["how"] and "encryption" not in each and each["name"] not in ELSEWHERE]
    return sorted(found, key=lambda each: not each["name"].startswith(("crd", "namespace")))


def stable(value: Any) -> Any:
    """Without what is another one each time."""
    if isinstance(value, dict):
        found = {key: key if key in VOLATILE and item else stable(item) for key, item in value.items()}
        # The client certificate's, which the client in this process has none of.
        if isinstance(extra := found.get("extra"), dict):
            extra.pop("authentication.kubernetes.io/credential-id", None)
            if not extra:
                del found["extra"]
        if found.get("generateName"):
            found["name"] = "generated"
        return found
    return [stable(each) for each in value] if isinstance(value, list) else value


def tree(key: str, value: bytes) -> Any:
    for resource in catalog.STORED:
        if key.startswith(f"/registry/{resource.storage_prefix or resource.plural}/") and not value.startswith(b"{"):
            obj = resource.codec.from_value(value, resource.api_version, resource.kind)
            assert resource.codec.to_value(obj, resource.stored_api_version, resource.kind) == value
            return stable(resource.codec.to_tree(obj))
    whole = json.loads(value)
    # The order of keys counts, too, where Go has one.
    return json.dumps(stable(whole)) if "apiextensions" in key else stable(whole)


async def play(client: Client, how: list[dict[str, Any]]) -> dict[str, Any]:
    """The last answer."""
    answer: dict[str, Any] = {}
    for step in how:
        body = step.get("body")
        if isinstance(body, dict) and step["method"] == "PUT":
            path = step["path"].removesuffix("/approval").removesuffix("/status")
            current = json.loads((await client.raw("GET", path, b"", {})).body)["metadata"]
            here = {name: current[name] for name in ("uid", "resourceVersion") if name in body["metadata"]}
            body = {**body, "metadata": body["metadata"] | here}
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": step.get("content_type") or "application/json", "User-Agent": "fixtures"}
        reply = await client.raw(step["method"], step["path"], data, headers | (step.get("headers") or {}))
        assert reply.status < 300, (step["method"], step["path"], reply.body)
        answer = json.loads(reply.body)
    return answer


@async_test
async def test_requests_leave_in_the_store_what_they_leave_in_kubernetes() -> None:
    async with Cluster() as cluster:
        client, store = cluster.client(), cluster.server.api.store
        compared = 0
        for fixture in replayed():
            answer = await play(client, fixture["how"])
            key = fixture["key"]
            if answer["metadata"].get("generateName"):
                key = f"{key.rpartition('/')[0]}/{answer['metadata']['name']}"
            if fixture["name"].startswith("crd"):
                await until(lambda: cluster.server.api.custom.cache("fixtures.example.com", "widgets") is not None)
            kept = await store.get(key)
            assert kept is not None, key
            assert tree(key, kept.value) == tree(key, base64.b64decode(fixture["value_b64"])), fixture["name"]
            compared += 1
        assert compared > 20


@async_test
async def test_all_that_a_server_stores_lies_where_kubernetes_looks_for_it_and_as_it_writes_it() -> None:
    """In the stored version of each kind, with every field in its form; a key that is not Kubernetes' is nowhere."""
    async with Cluster() as cluster:
        page = await cluster.server.api.store.list("")
        kinds = set()
        for entry in page.items:
            part = prefix_part(entry.key)
            kinds.add(part)
            resource = STORED[part]
            obj = resource.codec.from_value(entry.value, resource.api_version, resource.kind)
            assert resource.codec.to_value(obj, resource.stored_api_version, resource.kind) == entry.value, entry.key
            opened = protobuf.unseal(entry.value)
            assert (opened.api_version, opened.kind) == (resource.stored_api_version, resource.kind), entry.key
            assert not obj.metadata.resource_version and obj.metadata.uid
            place = [obj.metadata.namespace, obj.metadata.name] if resource.namespaced else [obj.metadata.name]
            assert entry.key == "/".join(["/registry", part, *place])
        assert {"clusterroles", "namespaces", "configmaps", "services/specs", "endpointslices"} <= kinds


STORED = {each.storage_prefix or each.plural: each for each in catalog.STORED}
