"""A field that takes one of several values takes no other: refused for every kind, before anything is stored."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import aio
from contract import route_matrix
from contract.test_unsupported import MERGE
from interop_world import manifest
from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1 import GROUP
from kubevouch.machinery.schema import ListSchema, MapSchema, StructSchema, schema_of
from kubevouch.machinery.scheme import Resource
from kubevouch.testing import Cluster

Tree = dict[str, Any]
WRONG = "Sideways"
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["leases"], "operations": ["CREATE"], "scope": "*"}
_WEBHOOK = {
    "name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None", "rules": [_RULE],
    "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "matchPolicy": "Exact",
}  # fmt: skip
_MATCH = {"resourceRules": [_RULE], "excludeResourceRules": [_RULE], "matchPolicy": "Exact"}
_POLICY = {"matchConstraints": _MATCH, "failurePolicy": "Fail", "validations": [{"expression": "true"}]}
_MUTATES = {
    "matchConstraints": _MATCH, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
}  # fmt: skip
_BINDING = {"policyName": "a", "matchResources": _MATCH, "validationActions": ["Deny"]}
# One of each kind that has such fields, with all of them.
SAMPLES: dict[Resource[Any], Tree] = {
    catalog.CERTIFICATE_SIGNING_REQUESTS: manifest("a"),
    catalog.RUNTIME_CLASSES: {"handler": "a", "scheduling": {"tolerations": [{"effect": "NoSchedule"}]}},
    catalog.NODES: {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    catalog.VALIDATING_WEBHOOK_CONFIGURATIONS: {"webhooks": [_WEBHOOK]},
    catalog.MUTATING_WEBHOOK_CONFIGURATIONS: {"webhooks": [{**_WEBHOOK, "reinvocationPolicy": "Never"}]},
    catalog.VALIDATING_ADMISSION_POLICIES: {"spec": _POLICY},
    catalog.VALIDATING_ADMISSION_POLICY_BINDINGS: {"spec": _BINDING},
    catalog.MUTATING_ADMISSION_POLICIES: {"spec": _MUTATES},
    catalog.MUTATING_ADMISSION_POLICY_BINDINGS: {"spec": {"policyName": "a", "matchResources": _MATCH}},
}
# Written through /status, for which Kubernetes has rules of its own: none about a node's phase.
STATUS: dict[str, tuple[str, Tree, int]] = {
    "Namespace.status.phase": ("/api/v1/namespaces/default", {"phase": WRONG}, 422),
    "Node.status.phase": ("/api/v1/nodes/a", {"phase": WRONG}, 200),
    "ResourceClaim.status.devices.conditions.status": (
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a",
        {"devices": [{"driver": "d", "pool": "p", "device": "x", "conditions": [{"type": "A", "status": WRONG}]}]},
        422,
    ),
    "ValidatingAdmissionPolicy.status.conditions.status": (
        f"/apis/{GROUP}/v1/validatingadmissionpolicies/a",
        {"conditions": [{"type": "A", "status": WRONG, "reason": "B", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        422,
    ),
}
# Nobody can create these, or they are off until they are asked for: what they answer is in vectors/attached.jsonl.
EMPTY = {
    "Pod", "PodCertificateRequest", "Service", "Endpoints", "EndpointSlice", "CSIDriver",
    "CustomResourceDefinition",
}  # fmt: skip


def enums(schema: StructSchema, path: tuple[str, ...] = (), above: tuple[type, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the fields that take one of several values."""
    for field in schema.fields:
        here = (*path, field.name)
        if field.enum:
            yield here
        kind = field.type
        while isinstance(kind, ListSchema | MapSchema):
            kind = kind.item if isinstance(kind, ListSchema) else kind.value
        if isinstance(kind, StructSchema) and kind.type not in above:
            yield from enums(kind, here, (*above, schema.type))


ALL = [(resource, path) for resource in catalog.STORED for path in enums(schema_of(resource.type))]
SPECS = [(resource, path) for resource, path in ALL if resource in SAMPLES and path[0] != "status"]


def wrong_at(tree: Tree, path: tuple[str, ...]) -> Tree:
    """The object with a value that the field at ``path`` does not take; the lists on the way have one item."""
    changed: Any = copy.deepcopy(tree)
    at = changed
    for name in path[:-1]:
        at = at[name][0] if isinstance(at[name], list) else at[name]
    at[path[-1]] = [WRONG] if isinstance(at[path[-1]], list) else WRONG
    assert isinstance(changed, dict)
    return changed


def whole(resource: Resource[Any]) -> Tree:
    header = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
    return {**header, **SAMPLES[resource]}


def test_every_such_field_is_looked_at() -> None:
    named = {f"{resource.kind}.{'.'.join(path)}" for resource, path in ALL if resource.kind not in EMPTY}
    tried = {f"{resource.kind}.{'.'.join(path)}" for resource, path in SPECS}
    assert named == tried | set(STATUS)


def test_a_value_that_is_none_of_them_is_not_stored() -> None:
    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            admin = (await route_matrix.credentials(cluster))["admin"]
            async with route_matrix.session(cluster, admin) as client:
                stored = {}
                for resource in SAMPLES:
                    # What is refused below is refused for that value alone.
                    async with client.post(resource.path(), json=whole(resource)) as answer:
                        assert answer.status == 201, await answer.text()
                        stored[resource] = await answer.json()
                before = await cluster.server.api.store.revision()
                for (resource, path), verb in itertools.product(SPECS, ("create", "update", "patch")):
                    if verb != "create" and resource is catalog.CERTIFICATE_SIGNING_REQUESTS:
                        continue  # its spec never changes
                    tree = wrong_at(stored[resource], path)
                    url = resource.path() if verb == "create" else f"{resource.path()}/a"
                    method = {"create": "POST", "update": "PUT", "patch": "PATCH"}[verb]
                    if verb == "create":
                        tree["metadata"] = {"name": "b"}
                    headers = MERGE if verb == "patch" else {}
                    async with client.request(method, url, json=tree, headers=headers) as answer:
                        status, text = answer.status, await answer.text()
                    assert status == 422 and WRONG in text, (resource.kind, path, verb, text)
                assert await cluster.server.api.store.revision() == before

    aio.run(scenario())


@pytest.mark.parametrize("field", STATUS)
def test_a_status_takes_what_kubernetes_lets_it_take(field: str) -> None:
    path, status, code = STATUS[field]

    async def scenario() -> None:
        async with Cluster(https=True) as cluster:
            admin = (await route_matrix.credentials(cluster))["admin"]
            async with route_matrix.session(cluster, admin) as client:
                for resource in (catalog.NODES, catalog.VALIDATING_ADMISSION_POLICIES):
                    async with client.post(resource.path(), json=whole(resource)) as answer:
                        assert answer.status == 201, await answer.text()
                claims = catalog.RESOURCE_CLAIMS
                bare = {"apiVersion": claims.api_version, "kind": claims.kind, "metadata": {"name": "a"}}
                async with client.post(claims.path("default"), json=bare) as answer:
                    assert answer.status == 201, await answer.text()
                before = await cluster.server.api.store.revision()
                async with client.patch(f"{path}/status", json={"status": status}, headers=MERGE) as answer:
                    assert answer.status == code, await answer.text()
                assert (await cluster.server.api.store.revision() == before) == (code != 200)

    aio.run(scenario())
