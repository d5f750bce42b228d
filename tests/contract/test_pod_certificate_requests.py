"""PodCertificateRequest as nodes, signers and others meet it: who may do what, and what each hears.

Recorded from kube-apiserver 1.36.2, where nothing else is said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, world
from kubevouch.api.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NODES,
    POD_CERTIFICATE_REQUESTS,
    POD_CERTIFICATE_REQUESTS_V1,
    PODS,
    SERVICE_ACCOUNTS,
)
from kubevouch.api.core_v1 import Node, Pod, PodSpec, ServiceAccount
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest, PodCertificateRequestStatus
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, user
from kubevouch.client.interface import Client, ListOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.scheme import Resource
from pod_requests import NOW, POD_UID, SIGNER, condition, key_of, proof, public_key, request, status

BETA = "certificates.k8s.io/v1beta1=true"
RESOURCE = "podcertificaterequests.certificates.k8s.io"
KIND = "PodCertificateRequest.certificates.k8s.io"
OWNER = OwnerReference(api_version="v1", kind="Pod", name="p", uid="pod-uid")


@asynccontextmanager
async def cluster(runtime_config: str = BETA) -> AsyncIterator[World]:
    """Nodes n1 and n2; pod p of account app runs on n1."""
    async with world(NOW, runtime_config) as at:
        for name in ("n1", "n2"):
            await at.put(NODES, Node(metadata=ObjectMeta(name=name, uid=f"{name}-uid")))
        for name in ("app", "other"):
            meta = ObjectMeta(name=name, namespace="default", uid=f"{name}-uid")
            await at.put(SERVICE_ACCOUNTS, ServiceAccount(metadata=meta))
        await at.put(PODS, pod())
        await at.put(PODS, pod("static", annotations={"kubernetes.io/config.mirror": "x"}))
        await at.put(PODS, pod("homeless", account="gone"))
        await at.client.list(PODS)  # what admission reads has come as far
        yield at


def pod(name: str = "p", account: str = "app", annotations: dict[str, str] | None = None) -> Pod:
    uid = "pod-uid" if name == "p" else f"{name}-uid"
    metadata = ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations or {})
    return Pod(metadata=metadata, spec=PodSpec(node_name="n1", service_account_name=account))


def asked(name: str = "", **changes: Any) -> PodCertificateRequest:
    """What the kubelet of n1 asks for its pod, but for ``changes``."""
    true: dict[str, Any] = {"pod_uid": "pod-uid", "service_account_uid": "app-uid", "node_uid": "n1-uid"}
    made = request(key_of("P-256"), **(true | changes))
    metadata = ObjectMeta(
        name=name, generate_name="" if name else "req-", namespace="default", owner_references=[OWNER]
    )
    return msgspec.structs.replace(made, metadata=metadata)


def node(at: World, name: str = "n1") -> Client:
    return at.as_user(f"system:node:{name}", "system:nodes")


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(APIStatusError) as caught:
        await call
    return caught.value.code, caught.value.status.message


def forbidden(name: str, why: str) -> tuple[int, str]:
    return 403, f'{RESOURCE} "{name}" is forbidden: {why}'


# ------------------------------------------------------------------ nodes


@async_test
async def test_a_node_asks_for_the_pods_that_run_on_it() -> None:
    async with cluster() as at:
        made = await node(at).create(POD_CERTIFICATE_REQUESTS, asked())
        assert made.metadata.name.startswith("req-")
        assert made.metadata.owner_references == [OWNER]
        # Whatever signer the pod names, and whatever it says to it: that is the signer's to look at.
        await node(at).create(POD_CERTIFICATE_REQUESTS, asked(signer_name="another.example.com/x"))


NOT_OWN = 'PodCertificateRequest.Spec.NodeName="n1", which is not the requesting node "n2"'
OF_POD = 'PodCertificateRequest for pod "default/p"'


@pytest.mark.parametrize(
    ("who", "changes", "code", "text"),
    [
        ("n2", {}, 403, NOT_OWN),
        ("n2", {"node_name": "n2", "node_uid": "n2-uid"}, 403,
         'pod "default/p" is not running on node "n2" named in the PodCertificateRequest'),
        ("n1", {"service_account_name": "other", "service_account_uid": "other-uid"}, 403,
         f'{OF_POD} contains serviceAccountName ("other") that differs from running pod ("app")'),
        ("n1", {"pod_name": "static", "pod_uid": "static-uid"}, 403, 'pod "default/static" is a mirror pod'),
        ("n1", {"node_uid": "zz"}, 500, f'{OF_POD} names node UID "zz", inconsistent with the running node ("n1-uid")'),
        ("n1", {"pod_uid": "zz"}, 500, f'{OF_POD} contains pod UID ("zz") which differs from running pod "pod-uid"'),
        ("n1", {"service_account_uid": "zz"}, 500,
         f'{OF_POD} names service account UID "zz", which differs from the running service account ("app-uid")'),
        ("n1", {"pod_name": "none"}, 500,
         'while retrieving pod "default/none" named in the PodCertificateRequest: pod "none" not found'),
        ("n3", {"node_name": "n3"}, 500,
         'while retrieving node "n3" named in the PodCertificateRequest: node "n3" not found'),
        ("n1", {"pod_name": "homeless", "pod_uid": "homeless-uid", "service_account_name": "gone"}, 500,
         ('while retrieving service account "default/gone" named in the PodCertificateRequest: '
         'serviceaccount "gone" not found')),
    ],
)  # fmt: skip
@async_test
async def test_a_node_that_lies(who: str, changes: dict[str, Any], code: int, text: str) -> None:
    async with cluster() as at:
        got = await refusal(node(at, who).create(POD_CERTIFICATE_REQUESTS, asked("c1", **changes)))
        assert got == (forbidden("c1", text) if code == 403 else (code, text))


@pytest.mark.parametrize(
    "owner",
    [
        msgspec.structs.replace(OWNER, name="q"),
        msgspec.structs.replace(OWNER, uid="another"),
        msgspec.structs.replace(OWNER, kind="Node"),
        msgspec.structs.replace(OWNER, block_owner_deletion=True),
    ],
)
@async_test
async def test_a_nodes_request_goes_with_its_pod_and_nothing_else(owner: OwnerReference) -> None:
    async with cluster() as at:
        made = replace_metadata(asked("c1"), owner_references=[owner])
        code, text = await refusal(node(at).create(POD_CERTIFICATE_REQUESTS, made))
        assert (code, text.partition("forbidden: ")[2]) == (
            403,
            'node "n1" can only set an owner reference to itself, without blockOwnerDeletion',
        )


@async_test
async def test_others_ask_for_whatever_they_like() -> None:
    """Which is why a signer looks the pod up itself."""
    async with cluster() as at:
        made = await at.client.create(POD_CERTIFICATE_REQUESTS, asked("c1", pod_name="none", node_name="none"))
        assert made.spec.pod_name == "none"


def cannot(who: str, verb: str, why: str, name: str = "c1", what: str = "podcertificaterequests") -> tuple[int, str]:
    where = 'in API group "certificates.k8s.io" in the namespace "default"'
    shown = f'{RESOURCE} "{name}"' if name else RESOURCE
    return 403, f'{shown} is forbidden: User "system:node:{who}" cannot {verb} resource "{what}" {where}: {why}'


@async_test
async def test_a_node_reads_its_own_and_changes_none() -> None:
    async with cluster() as at:
        made = await node(at).create(POD_CERTIFICATE_REQUESTS, asked("c1"))
        own, other = node(at), node(at, "n2")
        assert (await own.get(POD_CERTIFICATE_REQUESTS, "c1", "default")).spec == made.spec
        assert await refusal(other.get(POD_CERTIFICATE_REQUESTS, "c1", "default")) == cannot(
            "n2", "get", "no relationship found between node 'n2' and this object"
        )
        listed = await own.list(POD_CERTIFICATE_REQUESTS, "default", ListOptions(field_selector="spec.nodeName=n1"))
        assert [each.metadata.name for each in listed.items] == ["c1"]
        for selector in ("", "spec.nodeName=n2", "spec.nodeName!=n1", "spec.podName=p"):
            code, text = await refusal(
                own.list(POD_CERTIFICATE_REQUESTS, "default", ListOptions(field_selector=selector))
            )
            assert (code, text.rpartition(": ")[2]) == (
                403, "can only list/watch podcertificaterequests with nodeName field selector"
            )  # fmt: skip
        labelled = replace_metadata(made, labels={"a": "b"})
        update = own.update(POD_CERTIFICATE_REQUESTS, labelled)
        assert await refusal(update) == cannot("n1", "update", "nodes may not update podcertificaterequests")
        remove = own.delete(POD_CERTIFICATE_REQUESTS, "c1", "default")
        assert await refusal(remove) == cannot("n1", "delete", "nodes may not delete podcertificaterequests")
        answered = msgspec.structs.replace(made, status=status())
        write = own.update(POD_CERTIFICATE_REQUESTS, answered, subresource="status")
        assert await refusal(write) == cannot(
            "n1", "update", "nodes may not access the status subresource of PodCertificateRequests",
            what="podcertificaterequests/status",
        )  # fmt: skip


# ------------------------------------------------------------------ signers


async def allow(at: World, who: str, *rules: PolicyRule) -> Client:
    await at.client.create(CLUSTER_ROLES, cluster_role(who, *rules))
    await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding(who, user(who)))
    return at.as_user(who)


def may(verb: str, resource: str, *names: str) -> PolicyRule:
    return PolicyRule(
        verbs=[verb], api_groups=["certificates.k8s.io"], resources=[resource], resource_names=list(names)
    )


WRITE = may("update", "podcertificaterequests/status")


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (may("sign", "signers", SIGNER), True),
        (may("sign", "signers", "example.com/*"), True),
        (may("sign", "signers"), True),
        (may("sign", "signers", "example.com/other"), False),
        (may("sign", "signers", "*"), False),
        (may("approve", "signers", SIGNER), False),
    ],
)
@async_test
async def test_an_answer_needs_the_right_to_sign(rule: PolicyRule, allowed: bool) -> None:
    async with cluster() as at:
        made = await at.client.create(POD_CERTIFICATE_REQUESTS, asked("c1"))
        client = await allow(at, "s0", WRITE, rule)
        # What changes nothing needs no right, and what is wrong is told before.
        await client.update(POD_CERTIFICATE_REQUESTS, made, subresource="status")
        wrong = msgspec.structs.replace(made, status=msgspec.structs.replace(status(), not_before=None))
        code, text = await refusal(client.update(POD_CERTIFICATE_REQUESTS, wrong, subresource="status"))
        assert code == 422
        assert "status.notBefore: Required value" in text
        answer = status() if allowed else PodCertificateRequestStatus(conditions=[condition("Denied")])
        right = msgspec.structs.replace(made, status=answer)
        write = client.update(POD_CERTIFICATE_REQUESTS, right, subresource="status")
        if allowed:
            assert (await write).status == answer
            return
        why = f'User "s0" is not permitted to "sign" for signer "{SIGNER}"'
        assert await refusal(write) == (422, f'{KIND} "c1" is invalid: spec.signerName: Forbidden: {why}')


@async_test
async def test_an_answer_changes_nothing_else() -> None:
    async with cluster() as at:
        made = await at.client.create(POD_CERTIFICATE_REQUESTS, asked("c1"))
        answer = status()
        more = replace_metadata(
            made, labels={"a": "b"}, annotations={"a": "b"}, owner_references=[], finalizers=["a/b"]
        )
        more = msgspec.structs.replace(more, status=answer, spec=msgspec.structs.replace(made.spec, pod_name="another"))
        stored = await at.client.update(POD_CERTIFICATE_REQUESTS, more, subresource="status")
        assert (stored.spec, stored.status) == (made.spec, answer)
        meta = stored.metadata
        assert (meta.labels, meta.annotations, meta.finalizers, meta.owner_references) == ({}, {}, [], [OWNER])
        assert [each.subresource for each in meta.managed_fields] == ["", "status"]


# ------------------------------------------------------------------ everybody


@async_test
async def test_the_object_itself() -> None:
    async with cluster() as at:
        given = msgspec.structs.replace(asked("c1"), status=status())
        made = await at.client.create(POD_CERTIFICATE_REQUESTS, given)
        assert made.status.conditions == []  # an answer that comes with the question is dropped
        labelled = replace_metadata(msgspec.structs.replace(made, status=status()), labels={"a": "b"})
        stored = await at.client.update(POD_CERTIFICATE_REQUESTS, labelled)
        assert (stored.metadata.labels, stored.status.conditions) == ({"a": "b"}, [])
        blind = replace_metadata(stored, resource_version="")
        assert await refusal(at.client.update(POD_CERTIFICATE_REQUESTS, blind)) == (
            422,
            (
                f'{RESOURCE} "c1" is invalid: metadata.resourceVersion: Invalid value: 0: '
                "must be specified for an update"
            ),
        )
        another = msgspec.structs.replace(stored, spec=msgspec.structs.replace(made.spec, pod_name="q"))
        code, text = await refusal(at.client.update(POD_CERTIFICATE_REQUESTS, another))
        assert (code, text.rpartition(": ")[2]) == (422, "field is immutable")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (f"spec.signerName={SIGNER}", True),
        ("spec.podName=p", True),
        ("spec.nodeName=n2", False),
        ("metadata.name=c1", True),
        ("metadata.namespace=default", None),
        ("spec.podUID=x", None),
        ("status.notAfter=x", None),
    ],
)
@async_test
async def test_field_selectors(selector: str, found: bool | None) -> None:
    both = f"{BETA},certificates.k8s.io/v1/podcertificaterequests=true"
    async with cluster(both) as at:
        await at.client.create(POD_CERTIFICATE_REQUESTS, asked("c1"))
        both_versions: tuple[Resource[Any], ...] = (POD_CERTIFICATE_REQUESTS, POD_CERTIFICATE_REQUESTS_V1)
        for resource in both_versions:
            listing = at.client.list(resource, options=ListOptions(field_selector=selector))
            if found is None:
                name = selector.partition("=")[0]
                assert await refusal(listing) == (400, f"field label not supported: {name}")
            else:
                assert bool((await listing).items) == found


@async_test
async def test_v1_keeps_what_it_does_not_show() -> None:
    both = f"{BETA},certificates.k8s.io/v1/podcertificaterequests=true"
    key = key_of("Ed25519")
    old_way = {"stub_pkcs10_request": None, "pkix_public_key": public_key(key), "proof_of_possession": proof(key)}
    async with cluster(both) as at:
        made = await at.client.create(POD_CERTIFICATE_REQUESTS, asked("c1", pod_uid=POD_UID, **old_way))
        seen = await at.client.get(POD_CERTIFICATE_REQUESTS_V1, "c1", "default")
        await at.client.update(POD_CERTIFICATE_REQUESTS_V1, replace_metadata(seen, labels={"a": "b"}))
        stored = await at.client.get(POD_CERTIFICATE_REQUESTS, "c1", "default")
        assert (stored.metadata.labels, stored.spec) == ({"a": "b"}, made.spec)
        fresh = replace_metadata(seen, name="c2", uid="", resource_version="", managed_fields=[])
        code, text = await refusal(at.client.create(POD_CERTIFICATE_REQUESTS_V1, fresh))
        assert (code, text.partition("invalid: ")[2]) == (422, "spec.stubPKCS10Request: Required value")


@pytest.mark.parametrize("runtime_config", ["", "certificates.k8s.io/v1=true", "api/all=true,api/beta=false"])
@async_test
async def test_nothing_of_it_is_there_until_it_is_asked_for(runtime_config: str) -> None:
    async with world(NOW, runtime_config) as at:
        for resource in (POD_CERTIFICATE_REQUESTS, POD_CERTIFICATE_REQUESTS_V1):
            assert (await refusal(at.client.list(resource)))[0] == 404
