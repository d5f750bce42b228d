"""NodeRestriction for pods and their accounts: mirror pods, status, eviction, tokens."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import admission_request, node_user
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.node_restriction import NodeRestriction
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubevouch.api.core_v1.nodes import Node
from kubevouch.api.core_v1.pods import Pod, PodSpec
from kubevouch.api.core_v1.references import LocalObjectReference
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata

CREATE, UPDATE, DELETE, CONNECT = Operation
USER = node_user("worker-1")
NODE = Node(metadata=ObjectMeta(name="worker-1", uid="node-uid"))
OWNER = OwnerReference(api_version="v1", kind="Node", name="worker-1", uid="node-uid", controller=True)


def pod(name: str = "web", node_name: str = "worker-1", labels: dict[str, str] | None = None) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", uid=f"{name}-uid", labels=labels or {})
    return Pod(metadata=metadata, spec=PodSpec(node_name=node_name))


STORED = {("default", each.metadata.name): each for each in (pod(), pod("elsewhere", "worker-2"), pod("pending", ""))}
PLUGIN = NodeRestriction(lambda namespace, name: STORED.get((namespace, name)), {"worker-1": NODE}.get)


async def refusal_of(request: Request, plugin: NodeRestriction = PLUGIN) -> str:
    try:
        admitted = await plugin.admit(request)
    except APIStatusError as err:
        return err.status.message if err.code == 404 else err.status.message.partition(" is forbidden: ")[2]
    assert admitted is request.obj
    return ""


def mirror(*owners: OwnerReference, annotated: bool = True, node_name: str = "worker-1", **spec: Any) -> Pod:
    annotations = {"kubernetes.io/config.mirror": ""} if annotated else {}
    metadata = ObjectMeta(name="static", namespace="default", annotations=annotations, owner_references=list(owners))
    return Pod(metadata=metadata, spec=PodSpec(node_name=node_name, **spec))


def owner(**changes: Any) -> OwnerReference:
    return msgspec.structs.replace(OWNER, **changes)


@pytest.mark.parametrize(
    ("created", "refused"),
    [
        (mirror(OWNER), ""),
        (mirror(owner(block_owner_deletion=False)), ""),
        (
            mirror(OWNER, annotated=False),
            'pod does not have "kubernetes.io/config.mirror" annotation, node "worker-1" can only create mirror pods',
        ),
        (
            mirror(OWNER, node_name="worker-2"),
            'node "worker-1" can only create pods with spec.nodeName set to itself',
        ),
        (
            mirror(OWNER, owner(uid="2")),
            'node "worker-1" can only create pods with a single owner reference set to itself',
        ),
        (mirror(), 'node "worker-1" can only create pods with an owner reference set to itself'),
        (mirror(owner(kind="Pod")), 'node "worker-1" can only create pods with an owner reference set to itself'),
        (mirror(owner(name="worker-2")), 'node "worker-1" can only create pods with an owner reference set to itself'),
        (
            mirror(owner(api_version="v2")),
            'node "worker-1" can only create pods with an owner reference set to itself',
        ),
        (
            mirror(owner(controller=None)),
            'node "worker-1" can only create pods with a controller owner reference set to itself',
        ),
        (
            mirror(owner(controller=False)),
            'node "worker-1" can only create pods with a controller owner reference set to itself',
        ),
        (
            mirror(owner(block_owner_deletion=True)),
            'node "worker-1" must not set blockOwnerDeletion on an owner reference',
        ),
        (mirror(owner(uid="old")), "node worker-1 UID mismatch: expected old got node-uid"),
        (
            mirror(OWNER, service_account_name="robot"),
            'node "worker-1" can not create pods that reference a service account',
        ),
        (
            mirror(OWNER, image_pull_secrets=[LocalObjectReference(name="pull")]),
            'node "worker-1" can not create pods that reference secrets',
        ),
    ],
)
@async_test
async def test_mirror_pod(created: Pod, refused: str) -> None:
    assert await refusal_of(admission_request(CREATE, catalog.PODS, created, user=USER)) == refused


@async_test
async def test_mirror_pod_of_a_node_that_is_gone() -> None:
    request = admission_request(CREATE, catalog.PODS, mirror(OWNER), user=USER)
    assert await refusal_of(request, NodeRestriction()) == 'nodes "worker-1" not found'


NOT_OWN_STATUS = 'node "worker-1" can only update pod status for pods with spec.nodeName set to itself'
NOT_OWN_EVICTION = "node worker-1 can only evict pods with spec.nodeName set to itself"


@pytest.mark.parametrize(
    ("operation", "subresource", "new", "old", "refused"),
    [
        (DELETE, "", None, pod(), ""),
        (
            DELETE,
            "",
            None,
            pod("elsewhere"),
            'node "worker-1" can only delete pods with spec.nodeName set to itself',
        ),
        (DELETE, "", None, pod("pending"), 'node "worker-1" can only delete pods with spec.nodeName set to itself'),
        (DELETE, "", None, pod("missing"), 'pods "missing" not found'),
        (
            UPDATE,
            "",
            pod(),
            pod(),
            'unexpected operation "UPDATE", node "worker-1" can only create and delete mirror pods',
        ),
        (UPDATE, "status", pod(), pod(), ""),
        (UPDATE, "status", pod(), pod(node_name="worker-2"), NOT_OWN_STATUS),
        (UPDATE, "status", pod(), pod(node_name=""), NOT_OWN_STATUS),
        (
            UPDATE,
            "status",
            pod(labels={"a": "b"}),
            pod(),
            'node "worker-1" cannot update labels through pod status',
        ),
        (CREATE, "status", pod(), None, 'unexpected operation "CREATE"'),
        (CREATE, "eviction", pod(), None, ""),
        (CREATE, "eviction", pod("elsewhere"), None, NOT_OWN_EVICTION),
        (CREATE, "eviction", pod("missing"), None, 'pods "missing" not found'),
        (UPDATE, "eviction", pod(), pod(), "unexpected operation UPDATE"),
        (
            UPDATE,
            "ephemeralcontainers",
            pod(),
            pod(),
            "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed",
        ),
    ],
)
@async_test
async def test_pod(operation: Operation, subresource: str, new: Pod | None, old: Pod | None, refused: str) -> None:
    request = admission_request(operation, catalog.PODS, new, old, subresource=subresource, user=USER)
    assert await refusal_of(request) == refused


# ------------------------------------------------------------------ tokens for the pods that run here

UNBOUND = "node requested token not bound to a pod"


def token_for(name: str = "web", uid: str | None = None, kind: str = "Pod", version: str = "v1") -> TokenRequest:
    bound = BoundObjectReference(kind=kind, api_version=version, name=name, uid=f"{name}-uid" if uid is None else uid)
    return TokenRequest(
        metadata=ObjectMeta(name="robot", namespace="default"), spec=TokenRequestSpec(bound_object_ref=bound)
    )


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (token_for(), ""),
        (replace_metadata(TokenRequest(), name="robot", namespace="default"), UNBOUND),
        (token_for(kind="Secret"), UNBOUND),
        (token_for(kind="Node"), UNBOUND),
        (token_for(version="v2"), UNBOUND),
        (token_for(name=""), UNBOUND),
        (token_for(uid=""), "node requested token with a pod binding without a uid"),
        (token_for("missing"), 'pods "missing" not found'),
        (
            token_for(uid="other"),
            (
                "the UID in the bound object reference (other) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            ),
        ),
        (token_for("elsewhere"), "node requested token bound to a pod scheduled on a different node"),
        (token_for("pending"), "node requested token bound to a pod scheduled on a different node"),
    ],
)
@async_test
async def test_token(wanted: TokenRequest, refused: str) -> None:
    request = admission_request(CREATE, catalog.SERVICE_ACCOUNTS, wanted, subresource="token", user=USER)
    assert await refusal_of(request) == refused


@async_test
async def test_service_accounts_themselves_are_left_to_the_authorizer() -> None:
    request = admission_request(CREATE, catalog.SERVICE_ACCOUNTS, name="robot", namespace="default", user=USER)
    assert await refusal_of(request) == ""
