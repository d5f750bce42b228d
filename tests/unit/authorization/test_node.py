from __future__ import annotations

import pytest

from asynctest import async_test
from decisions import BOB, node_user
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.bootstrap_policy import node_rules
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.node import NodeAuthorizer
from kubevouch.machinery.scheme import GroupResource

NODE = node_user("n")
RELATED = {
    ("n", GroupResource("", "secrets"), "shop", "used"),
    ("n", GroupResource("", "configmaps"), "shop", "used"),
    ("n", GroupResource("", "serviceaccounts"), "shop", "used"),
    ("n", GroupResource("", "pods"), "shop", "used"),
    ("n", GroupResource("", "persistentvolumeclaims"), "shop", "used"),
    ("n", GroupResource("", "persistentvolumes"), "", "used"),
    ("n", GroupResource("storage.k8s.io", "volumeattachments"), "", "used"),
    ("n", GroupResource("resource.k8s.io", "resourceclaims"), "shop", "used"),
    ("n", GroupResource("resource.k8s.io", "resourceslices"), "", "used"),
    ("n", GroupResource("certificates.k8s.io", "podcertificaterequests"), "shop", "used"),
    ("m", GroupResource("", "secrets"), "shop", "others"),
}


class Graph:
    """Knows the objects in ``RELATED``."""

    def leads_to(self, node_name: str, resource: GroupResource, namespace: str, name: str) -> bool:
        return (node_name, resource, namespace, name) in RELATED


_GROUPS = {"storage": "storage.k8s.io", "resource": "resource.k8s.io", "leases": "coordination.k8s.io"}
AUTHORIZER = NodeAuthorizer(node_rules(), Graph())
UNRELATED = "no relationship found between node 'n' and this object"
ALLOWED = "allowed"


def asks(
    verb: str, resource: str, namespace: str = "", name: str = "", selector: str = "", user: UserInfo = NODE
) -> Attributes:
    """``resource`` is written as ``group:resource/subresource``, the core group without the colon."""
    group, _, rest = resource.rpartition(":")
    plural, _, subresource = rest.partition("/")
    group = {"storage": "storage.k8s.io", "resource": "resource.k8s.io", "leases": "coordination.k8s.io"}.get(
        group, group
    )
    return Attributes(user, verb, group, "v1", plural, subresource, namespace, name, field_selector=selector)


async def answer(attributes: Attributes, authorizer: NodeAuthorizer = AUTHORIZER) -> str:
    """``allowed``, or the reason against it; a node authorizer never denies."""
    verdict = await authorizer.authorize(attributes)
    assert verdict.decision is not Decision.DENY
    return ALLOWED if verdict.decision is Decision.ALLOW else verdict.reason


READ_ONLY = "can only read resources of this type"
GET_ONLY = "can only get individual resources of this type"
LEASE_VERBS = "can only get, create, update, patch, or delete a node lease"
LEASE_NAMESPACE = 'can only access leases in the "kube-node-lease" system namespace'
OWN_IDENTITY = "can only get the NodeIdentity with the same name as the requesting node"
LEASE_NAME = "can only access node lease with the same name as the requesting node"
CSI_NAME = "can only access CSINode with the same name as the requesting node"
ONE_ACCOUNT = "can only create tokens for individual service accounts"
OWN_PODS = "can only list/watch pods with spec.nodeName field selector"
OWN_SLICES = "can only list/watch/deletecollection resourceslices with nodeName field selector"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        # what an operator says of the machine, as it stands now
        (asks("get", "kubevouch.io:nodeidentities", "", "n"), ALLOWED),
        (asks("get", "kubevouch.io:nodeidentities", "", "m"), OWN_IDENTITY),
        (asks("get", "kubevouch.io:nodeidentities/status", "", "n"), OWN_IDENTITY),
        (asks("list", "kubevouch.io:nodeidentities"), OWN_IDENTITY),
        (asks("watch", "kubevouch.io:nodeidentities", "", "n"), OWN_IDENTITY),
        (asks("update", "kubevouch.io:nodeidentities", "", "n"), OWN_IDENTITY),
        (asks("delete", "kubevouch.io:nodeidentities", "", "n"), OWN_IDENTITY),
        # secrets and configmaps: reading what a pod of the node refers to
        (asks("get", "secrets", "shop", "used"), ALLOWED),
        (asks("list", "secrets", "shop", "used"), ALLOWED),
        (asks("watch", "configmaps", "shop", "used"), ALLOWED),
        (asks("get", "secrets", "shop", "unused"), UNRELATED),
        (asks("get", "secrets", "shop", "others"), UNRELATED),
        (asks("get", "secrets", "other", "used"), UNRELATED),
        (asks("list", "secrets", "shop"), "No Object name found"),
        (asks("get", "secrets", "", "used"), "can only read namespaced object of this type"),
        (asks("get", "secrets/status", "shop", "used"), "cannot read subresource"),
        (asks("update", "secrets", "shop", "used"), READ_ONLY),
        (asks("create", "configmaps", "shop"), READ_ONLY),
        (asks("deletecollection", "configmaps", "shop"), READ_ONLY),
        # volumes and claims: one at a time
        (asks("get", "persistentvolumes", "", "used"), ALLOWED),
        (asks("get", "persistentvolumes", "", "unused"), UNRELATED),
        (asks("list", "persistentvolumes"), GET_ONLY),
        (asks("get", "persistentvolumes/status", "", "used"), "cannot get subresource"),
        (asks("get", "storage:volumeattachments", "", "used"), ALLOWED),
        (asks("watch", "storage:volumeattachments", "", "used"), GET_ONLY),
        (asks("get", "resource:resourceclaims", "shop", "used"), ALLOWED),
        (asks("get", "resource:resourceclaims/status", "shop", "used"), "cannot get subresource"),
        (asks("get", "persistentvolumeclaims", "shop", "used"), ALLOWED),
        (asks("delete", "persistentvolumeclaims", "shop", "used"), GET_ONLY),
        (asks("patch", "persistentvolumeclaims/status", "shop", "used"), ALLOWED),
        (asks("update", "persistentvolumeclaims/status", "shop", "unused"), UNRELATED),
        (asks("get", "persistentvolumeclaims/status", "shop", "used"), "can only get/update/patch this type"),
        # service accounts: tokens for those that its pods use
        (asks("get", "serviceaccounts", "shop", "used"), ALLOWED),
        (asks("get", "serviceaccounts", "shop", "unused"), UNRELATED),
        (asks("create", "serviceaccounts/token", "shop", "used"), ALLOWED),
        (asks("create", "serviceaccounts/token", "shop", "unused"), UNRELATED),
        (asks("create", "serviceaccounts/token", "shop"), ONE_ACCOUNT),
        (asks("create", "serviceaccounts", "shop"), ONE_ACCOUNT),
        (asks("list", "serviceaccounts", "shop"), ONE_ACCOUNT),
        (asks("get", "serviceaccounts/token", "shop", "used"), ONE_ACCOUNT),
        (asks("create", "serviceaccounts", "shop", "used"), "can only create token subresource of serviceaccount"),
        # leases
        (asks("get", "leases:leases", "kube-node-lease", "n"), ALLOWED),
        (asks("create", "leases:leases", "kube-node-lease"), ALLOWED),
        (asks("delete", "leases:leases", "kube-node-lease", "n"), ALLOWED),
        (asks("update", "leases:leases", "kube-node-lease", "m"), LEASE_NAME),
        (asks("update", "leases:leases", "kube-node-lease", ""), LEASE_NAME),
        (asks("get", "leases:leases", "kube-system", "n"), LEASE_NAMESPACE),
        (asks("create", "leases:leases", ""), LEASE_NAMESPACE),
        (asks("list", "leases:leases", "kube-node-lease"), LEASE_VERBS),
        (asks("watch", "leases:leases", "kube-node-lease", "n"), LEASE_VERBS),
        (asks("deletecollection", "leases:leases", "kube-node-lease"), LEASE_VERBS),
        # CSINodes
        (asks("create", "storage:csinodes"), ALLOWED),
        (asks("patch", "storage:csinodes", "", "n"), ALLOWED),
        (asks("get", "storage:csinodes", "", "m"), CSI_NAME),
        (asks("list", "storage:csinodes"), "can only get, create, update, patch, or delete a CSINode"),
        (asks("update", "storage:csinodes/status", "", "n"), "cannot authorize CSINode subresources"),
        # nodes: which one is written is for admission
        (asks("create", "nodes"), ALLOWED),
        (asks("update", "nodes", "", "m"), ALLOWED),
        (asks("patch", "nodes/status", "", "n"), ALLOWED),
        (asks("get", "nodes", "", "n"), ALLOWED),
        (asks("watch", "nodes", "", "n"), ALLOWED),
        (asks("get", "nodes", "", "m"), "node 'n' cannot read 'm', only its own Node object"),
        (asks("list", "nodes"), "node 'n' cannot read all nodes, only its own Node object"),
        (asks("delete", "nodes", "", "n"), ""),
        (asks("get", "nodes/status", "", "n"), ""),
        (asks("get", "nodes/proxy", "", "n"), ""),
        (asks("create", "nodes/status", "", "n"), ""),
        # pods
        (asks("get", "pods", "shop", "used"), ALLOWED),
        (asks("get", "pods", "shop", "unused"), UNRELATED),
        (asks("list", "pods", "", selector="spec.nodeName=n"), ALLOWED),
        (asks("watch", "pods", "", selector="spec.nodeName==n,status.phase!=Failed"), ALLOWED),
        (asks("list", "pods", "", selector="spec.nodeName=m"), OWN_PODS),
        (asks("list", "pods", "", selector="spec.nodeName!=n"), OWN_PODS),
        (asks("list", "pods", "", selector="metadata.name=n"), OWN_PODS),
        (asks("list", "pods", "", selector="spec.nodeName=nn"), OWN_PODS),
        (asks("list", "pods", "", selector="no selector"), OWN_PODS),
        (asks("list", "pods"), OWN_PODS),
        (asks("list", "pods", "shop", "used"), ALLOWED),
        (asks("list", "pods", "shop", "unused"), UNRELATED),
        (asks("create", "pods", "shop"), ALLOWED),
        (asks("delete", "pods", "shop", "any"), ALLOWED),
        (asks("update", "pods", "shop", "any"), ""),
        (asks("patch", "pods/status", "shop", "any"), ALLOWED),
        (asks("create", "pods/eviction", "shop", "any"), ALLOWED),
        (asks("delete", "pods/eviction", "shop", "any"), ""),
        (asks("create", "pods/exec", "shop", "any"), ""),
        (asks("deletecollection", "pods", "shop"), ""),
        # resource slices
        (asks("create", "resource:resourceslices"), ALLOWED),
        (asks("update", "resource:resourceslices", "", "used"), ALLOWED),
        (asks("get", "resource:resourceslices", "", "unused"), UNRELATED),
        (asks("delete", "resource:resourceslices"), "No Object name found"),
        (asks("deletecollection", "resource:resourceslices", selector="spec.nodeName=n"), ALLOWED),
        (asks("deletecollection", "resource:resourceslices", selector="nodeName=n"), OWN_SLICES),
        (asks("list", "resource:resourceslices", selector="spec.nodeName=m"), OWN_SLICES),
        (asks("watch", "resource:resourceslices"), OWN_SLICES),
        (asks("get", "resource:resourceslices/status", "", "used"), "cannot authorize ResourceSlice subresources"),
        (
            asks("sign", "resource:resourceslices"),
            (
                "only the following verbs are allowed for a ResourceSlice: "
                "get, watch, list, create, update, patch, delete, deletecollection"
            ),
        ),
        # everything else: the role system:node
        (asks("create", "certificates.k8s.io:certificatesigningrequests"), ALLOWED),
        (asks("get", "certificates.k8s.io:certificatesigningrequests", "", "any"), ALLOWED),
        (asks("delete", "certificates.k8s.io:certificatesigningrequests", "", "any"), ""),
        (asks("update", "certificates.k8s.io:certificatesigningrequests/approval", "", "any"), ""),
        (asks("create", "certificates.k8s.io:certificatesigningrequests/selfnodeclient"), ""),
        (asks("approve", "certificates.k8s.io:signers", "", "kubernetes.io/kubelet-serving"), ""),
        (asks("list", "services"), ALLOWED),
        (asks("create", "authorization.k8s.io:subjectaccessreviews"), ALLOWED),
        (asks("create", "events", "shop"), ALLOWED),
        (asks("get", "events", "shop", "any"), ""),
        (asks("get", "rbac.authorization.k8s.io:clusterroles", "", "any"), ""),
        (Attributes(NODE, "get", path="/metrics"), ""),
    ],
)  # fmt: skip
@async_test
async def test_what_a_node_may_do(asked: Attributes, said: str) -> None:
    assert await answer(asked) == said


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (UserInfo("system:node:", groups=("system:nodes",)), 'unknown node for user "system:node:"'),
        (UserInfo("system:node:n"), ""),
        (UserInfo("n", groups=("system:nodes",)), ""),
        (UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",)), ""),
        (BOB, ""),
    ],
)
@async_test
async def test_who_is_no_node(user: UserInfo, said: str) -> None:
    assert await answer(asks("create", "nodes", user=user)) == said


@async_test
async def test_without_pods_nothing_is_related() -> None:
    authorizer = NodeAuthorizer(node_rules())
    assert await answer(asks("get", "secrets", "shop", "used"), authorizer) == UNRELATED
    assert await answer(asks("create", "serviceaccounts/token", "shop", "used"), authorizer) == UNRELATED
    assert await answer(asks("list", "pods", selector="spec.nodeName=n"), authorizer) == ALLOWED


@async_test
async def test_rules_cannot_be_listed() -> None:
    listed = await AUTHORIZER.rules_for(NODE, "shop")
    assert (listed.rules, listed.incomplete) == ((), True)
    assert listed.error == "node authorizer does not support user rule resolution"
    others = await AUTHORIZER.rules_for(BOB, "shop")
    assert (others.rules, others.incomplete, others.error) == ((), False, "")
