from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, admission_request, csr, node_user, request_pem
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.node_restriction import NodeRestriction, forbidden_labels
from kubevouch.api import catalog
from kubevouch.api.coordination_v1 import Lease
from kubevouch.api.core_v1.nodes import Node, NodeConfigSource, NodeSpec, Taint
from kubevouch.api.resource_v1 import ResourceSlice, ResourceSliceSpec
from kubevouch.api.storage_v1 import CSINode
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.scheme import Resource

CREATE, UPDATE, DELETE, CONNECT = Operation
PLUGIN = NodeRestriction()
NODE = node_user("worker-1")


async def refusal_of(request: Request, plugin: NodeRestriction = PLUGIN) -> str:
    """The sentence after ``is forbidden:``, or an empty text for a request that passes unchanged."""
    try:
        admitted = await plugin.admit(request)
    except APIStatusError as err:
        return err.status.message.partition(" is forbidden: ")[2]
    assert admitted is request.obj
    return ""


def node(name: str = "worker-1", labels: dict[str, str] | None = None, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels or {}), spec=NodeSpec(taints=list(taints)))


# ------------------------------------------------------------------ who is meant


@pytest.mark.parametrize(
    ("user", "refused"),
    [
        (NODE, 'node "worker-1" is not allowed to modify node "worker-2"'),
        (UserInfo("system:node:", groups=("system:nodes",)), 'could not determine node from user "system:node:"'),
        (UserInfo("system:node:worker-1"), ""),
        (UserInfo("worker-1", groups=("system:nodes",)), ""),
        (UserInfo("system:nodes:worker-1", groups=("system:nodes",)), ""),
        (UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",)), ""),
        (BOB, ""),
    ],
)
@async_test
async def test_name_and_group_together_make_a_node(user: UserInfo, refused: str) -> None:
    request = admission_request(UPDATE, catalog.NODES, node("worker-2"), node("worker-2"), user=user)
    assert await refusal_of(request) == refused


@async_test
async def test_nameless_node_writes_nothing_at_all() -> None:
    nobody = UserInfo("system:node:", groups=("system:nodes",))
    request = admission_request(CREATE, catalog.CONFIG_MAPS, None, name="x", namespace="default", user=nobody)
    assert await refusal_of(request) == 'could not determine node from user "system:node:"'


@pytest.mark.parametrize("operation", Operation)
def test_handles_every_write(operation: Operation) -> None:
    assert PLUGIN.handles(operation, catalog.CONFIG_MAPS.group_resource, "") is (operation is not CONNECT)


# ------------------------------------------------------------------ nodes

OWNER = OwnerReference(api_version="v1", kind="Pod", name="gone", uid="1")
TAINT = Taint(key="dedicated", effect="NoSchedule")
CONFIG = NodeSpec(config_source=NodeConfigSource())
NOT_OTHERS = 'node "worker-1" is not allowed to modify node "worker-2"'


@pytest.mark.parametrize(
    ("operation", "new", "old", "refused"),
    [
        (CREATE, node(), None, ""),
        (CREATE, node(labels={"kubernetes.io/hostname": "worker-1", "own": "x"}), None, ""),
        (CREATE, node("worker-1", {}, TAINT), None, ""),
        (CREATE, node("worker-2"), None, NOT_OTHERS),
        (UPDATE, node("worker-2"), node("worker-2"), NOT_OTHERS),
        (DELETE, None, node("worker-2"), NOT_OTHERS),
        (DELETE, None, node(), ""),
        (
            CREATE,
            node(labels={"node-role.kubernetes.io/control-plane": "", "a.node-restriction.kubernetes.io/b": ""}),
            None,
            (
                'node "worker-1" is not allowed to set the following labels: '
                "a.node-restriction.kubernetes.io/b, node-role.kubernetes.io/control-plane"
            ),
        ),
        (
            CREATE,
            msgspec.structs.replace(node(), spec=CONFIG),
            None,
            'node "worker-1" is not allowed to create pods with a non-nil configSource',
        ),
        (
            UPDATE,
            msgspec.structs.replace(node(), spec=CONFIG),
            node(),
            'node "worker-1" is not allowed to update configSource to a new non-nil configSource',
        ),
        (UPDATE, node(), msgspec.structs.replace(node(), spec=CONFIG), ""),
        (UPDATE, node(labels={"own": "x"}), node(labels={"own": "y"}), ""),
        (
            CREATE,
            replace_metadata(node(), owner_references=[OWNER]),
            None,
            'node "worker-1" is not allowed to set ownerReferences',
        ),
        (
            CREATE,
            replace_metadata(node(), finalizers=["example.com/a"]),
            None,
            'node "worker-1" is not allowed to modify finalizers',
        ),
        (
            UPDATE,
            node(labels={"node-role.kubernetes.io/a": "x"}),
            node(),
            "is not allowed to modify labels: node-role.kubernetes.io/a",
        ),
        (
            UPDATE,
            node(),
            node(labels={"node-role.kubernetes.io/a": ""}),
            "is not allowed to modify labels: node-role.kubernetes.io/a",
        ),
        (
            UPDATE,
            node(labels={"node-role.kubernetes.io/a": "x"}),
            node(labels={"node-role.kubernetes.io/a": "y"}),
            "is not allowed to modify labels: node-role.kubernetes.io/a",
        ),
        (UPDATE, node(labels={"node-role.kubernetes.io/a": "x"}), node(labels={"node-role.kubernetes.io/a": "x"}), ""),
        (UPDATE, node(), node("worker-1", {}, TAINT), 'node "worker-1" is not allowed to modify taints'),
        (UPDATE, node("worker-1", {}, TAINT), node(), 'node "worker-1" is not allowed to modify taints'),
        (UPDATE, node("worker-1", {}, TAINT), node("worker-1", {}, TAINT), ""),
        (
            UPDATE,
            replace_metadata(node(), owner_references=[OWNER]),
            node(),
            'node "worker-1" is not allowed to modify ownerReferences',
        ),
        (
            UPDATE,
            node(),
            replace_metadata(node(), owner_references=[OWNER]),
            'node "worker-1" is not allowed to modify ownerReferences',
        ),
    ],
)
@async_test
async def test_node(operation: Operation, new: Node | None, old: Node | None, refused: str) -> None:
    assert await refusal_of(admission_request(operation, catalog.NODES, new, old, user=NODE)) == refused


ITSELF = OwnerReference(api_version="v1", kind="Node", name="worker-1", uid="1")
NOT_OWNED = 'node "worker-1" can only set an owner reference to itself, without blockOwnerDeletion'


@pytest.mark.parametrize(
    ("owners", "before", "refused"),
    [
        ([ITSELF], [], ""),
        ([OWNER], [OWNER], ""),
        ([OWNER, ITSELF], [OWNER], ""),
        ([OWNER], [], NOT_OWNED),
        ([OWNER], [ITSELF], NOT_OWNED),
        ([OWNER, ITSELF, msgspec.structs.replace(OWNER, uid="2")], [OWNER], NOT_OWNED),
        ([msgspec.structs.replace(ITSELF, name="worker-2")], [], NOT_OWNED),
        ([msgspec.structs.replace(ITSELF, kind="Pod")], [], NOT_OWNED),
        ([msgspec.structs.replace(ITSELF, api_version="v2")], [], NOT_OWNED),
        ([msgspec.structs.replace(ITSELF, block_owner_deletion=True)], [], NOT_OWNED),
    ],
)
@async_test
async def test_owners_of_what_a_node_writes(
    owners: list[OwnerReference], before: list[OwnerReference], refused: str
) -> None:
    """With an owner of its choice it has somebody else's object collected, or holds up its deletion."""
    lease = Lease(metadata=ObjectMeta(name="worker-1", namespace="kube-node-lease"))
    new, old = (replace_metadata(lease, owner_references=each) for each in (owners, before))
    assert await refusal_of(admission_request(UPDATE, catalog.LEASES, new, old, user=NODE)) == refused
    if not before:
        assert await refusal_of(admission_request(CREATE, catalog.LEASES, new, user=NODE)) == refused


@pytest.mark.parametrize("subresource", ["status", "proxy"])
@async_test
async def test_subresources_of_other_nodes(subresource: str) -> None:
    request = admission_request(
        UPDATE, catalog.NODES, node("worker-2"), node("worker-2"), subresource=subresource, user=NODE
    )
    assert await refusal_of(request) == NOT_OTHERS


@async_test
async def test_node_whose_name_the_server_is_to_make() -> None:
    unnamed = Node(metadata=ObjectMeta(generate_name="worker-"))
    with pytest.raises(APIStatusError) as caught:
        await PLUGIN.admit(admission_request(CREATE, catalog.NODES, unnamed, user=NODE))
    assert caught.value.status.message == (
        'nodes "worker-" is forbidden: node "worker-1" is not allowed to modify node ""'
    )


@pytest.mark.parametrize(
    "label",
    [
        "own",
        "example.com/team",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/anything",
        "kubelet.kubernetes.io/anything",
        "a.b.kubelet.kubernetes.io/anything",
        "sub.node.kubernetes.io/anything",
        "notkubernetes.io/role",
        "kubernetes.io",
        "kubernetes.io.example.com/role",
    ],
)
def test_label_that_a_node_may_set(label: str) -> None:
    assert forbidden_labels([label]) == []


@pytest.mark.parametrize(
    "label",
    [
        "node-restriction.kubernetes.io/fips",
        "a.node-restriction.kubernetes.io/fips",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/role",
        "k8s.io/role",
        "fleet.k8s.io/role",
        "topology.kubernetes.io/rack",
        "beta.kubernetes.io/fluentd-ds-ready",
        "mynode.kubernetes.io/x",
        "kubernetes.io/Hostname",
        "x.kubernetes.io/hostname",
    ],
)
def test_label_that_no_node_may_set(label: str) -> None:
    assert forbidden_labels(["own", label]) == [label]


# ------------------------------------------------------------------ leases, CSINodes, resource slices

NAMESPACE_ONLY = 'can only access leases in the "kube-node-lease" system namespace'
OWN_LEASE = "can only access node lease with the same name as the requesting node"


def lease(name: str = "worker-1", namespace: str = "kube-node-lease") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace))


@pytest.mark.parametrize("operation", [CREATE, UPDATE, DELETE])
@pytest.mark.parametrize(
    ("written", "refused"),
    [
        (lease(), ""),
        (lease("worker-2"), OWN_LEASE),
        (lease(""), OWN_LEASE),
        (lease(namespace="kube-system"), NAMESPACE_ONLY),
        (lease("worker-2", "default"), NAMESPACE_ONLY),
    ],
)
@async_test
async def test_lease(operation: Operation, written: Lease, refused: str) -> None:
    new, old = (None, written) if operation is DELETE else (written, None if operation is CREATE else written)
    assert await refusal_of(admission_request(operation, catalog.LEASES, new, old, user=NODE)) == refused


@pytest.mark.parametrize(
    ("resource", "unnamed", "refused"),
    [
        (catalog.LEASES, Lease(metadata=ObjectMeta(generate_name="worker-1", namespace="kube-node-lease")), OWN_LEASE),
        (
            catalog.CSI_NODES,
            CSINode(metadata=ObjectMeta(generate_name="worker-1")),
            "can only access CSINode with the same name as the requesting node",
        ),
    ],
)
@async_test
async def test_name_in_the_url_does_not_stand_for_the_object(
    resource: Resource[Any], unnamed: Lease | CSINode, refused: str
) -> None:
    assert await refusal_of(admission_request(CREATE, resource, unnamed, user=NODE, name="worker-1")) == refused


@pytest.mark.parametrize("operation", [CREATE, UPDATE, DELETE])
@pytest.mark.parametrize("name", ["worker-1", "worker-2"])
@async_test
async def test_csi_node(operation: Operation, name: str) -> None:
    written = CSINode(metadata=ObjectMeta(name=name))
    refused = "" if name == "worker-1" else "can only access CSINode with the same name as the requesting node"
    assert await refusal_of(admission_request(operation, catalog.CSI_NODES, written, written, user=NODE)) == refused


def resource_slice(node_name: str | None) -> ResourceSlice:
    return ResourceSlice(metadata=ObjectMeta(name="slice"), spec=ResourceSliceSpec(node_name=node_name))


@pytest.mark.parametrize(
    ("operation", "node_name", "refused"),
    [
        (CREATE, "worker-1", ""),
        (CREATE, "worker-2", "can only create ResourceSlice with the same NodeName as the requesting node"),
        (CREATE, None, "can only create ResourceSlice with the same NodeName as the requesting node"),
        (DELETE, "worker-1", ""),
        (DELETE, "worker-2", "can only delete ResourceSlice with the same NodeName as the requesting node"),
        (DELETE, None, "can only delete ResourceSlice with the same NodeName as the requesting node"),
        (UPDATE, "worker-2", ""),
    ],
)
@async_test
async def test_resource_slice(operation: Operation, node_name: str | None, refused: str) -> None:
    written = resource_slice(node_name)
    new, old = (None, written) if operation is DELETE else (written, written)
    assert await refusal_of(admission_request(operation, catalog.RESOURCE_SLICES, new, old, user=NODE)) == refused


# ------------------------------------------------------------------ certificate requests

SERVING = "kubernetes.io/kubelet-serving"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NOT_OWN_NAME = "can only create a node CSR with CN=system:node:worker-1"


@pytest.mark.parametrize(
    ("signer", "request_", "refused"),
    [
        (SERVING, request_pem("system:node:worker-1", "system:nodes"), ""),
        (KUBELET_CLIENT, request_pem("system:node:worker-1", "system:nodes"), ""),
        (KUBELET_CLIENT, request_pem("system:node:worker-2", "system:nodes"), NOT_OWN_NAME),
        (SERVING, request_pem("system:node:worker-1."), NOT_OWN_NAME),
        (SERVING, request_pem(""), NOT_OWN_NAME),
        (SERVING, b"", "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
        (KUBELET_CLIENT, b"nonsense", "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
        ("kubernetes.io/kube-apiserver-client", request_pem("somebody"), ""),
        ("example.com/fleet", b"nonsense", ""),
    ],
)
@async_test
async def test_certificate_request(signer: str, request_: bytes, refused: str) -> None:
    wanted = csr(signer, request_)
    resource = catalog.CERTIFICATE_SIGNING_REQUESTS
    assert await refusal_of(admission_request(CREATE, resource, wanted, user=NODE)) == refused
    assert await refusal_of(admission_request(UPDATE, resource, wanted, wanted, user=NODE)) == ""
    assert await refusal_of(admission_request(CREATE, resource, wanted, user=BOB)) == ""
