"""NodeRestriction: a kubelet changes its own objects only, and cannot make its node look like another kind of node.

It runs in the mutating phase, so a node hears 403 before 422, also for a request that does not parse. Owners and
finalizers are more closely restricted than by Kubernetes' plug-in.
Source: plugin/pkg/admission/noderestriction (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.refusal import refused, requested_name
from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import TokenRequest
from kubevouch.api.core_v1.nodes import Node
from kubevouch.api.core_v1.pods import Pod
from kubevouch.api.core_v1.serviceaccounts import ServiceAccount
from kubevouch.api.pod_certificate_requests_v1beta1 import PodCertificateRequest
from kubevouch.authentication.node_identifier import node_name_of
from kubevouch.machinery import errors
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.policy import names_node
from kubevouch.pki.x509 import x509_request
from kubevouch.wellknown import (
    ARCH_LABEL,
    HOSTNAME_LABEL,
    KUBE_NODE_LEASE_NAMESPACE,
    NODE_USER_PREFIX,
    OS_LABEL,
)

MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"

PodGetter = Callable[[str, str], Pod | None]
NodeGetter = Callable[[str], Node | None]
ServiceAccountGetter = Callable[[str, str], ServiceAccount | None]

# Kubernetes' own labels that a kubelet sets; everything else under these domains is for operators.
_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_RESTRICTION = "node-restriction.kubernetes.io"
_KUBELET_LABELS = frozenset(
    {
        HOSTNAME_LABEL,
        OS_LABEL,
        ARCH_LABEL,
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)


class NodeRestriction:
    """A mutating plug-in that changes nothing. It is for users that are nodes and leaves others alone.

    Args:
        pod_named: a pod by namespace and name, or None; a server without pods leaves it out.
        node_named: a node by name, or None.
        account_named: a ServiceAccount by namespace and name, or None.
    """

    name = "NodeRestriction"

    def __init__(
        self,
        pod_named: PodGetter | None = None,
        node_named: NodeGetter | None = None,
        account_named: ServiceAccountGetter | None = None,
    ) -> None:
        self._pod_named = pod_named or (lambda namespace, name: None)  # noqa: ARG005
        self._node_named = node_named or (lambda name: None)  # noqa: ARG005
        self._account_named = account_named or (lambda namespace, name: None)  # noqa: ARG005
        self._checks: dict[GroupResource, Callable[[str, Request], None]] = {
            catalog.PODS.group_resource: self._check_pod,
            catalog.NODES.group_resource: _check_node,
            catalog.SERVICE_ACCOUNTS.group_resource: self._check_service_account,
            catalog.LEASES.group_resource: _check_lease,
            catalog.CSI_NODES.group_resource: _check_csi_node,
            catalog.RESOURCE_SLICES.group_resource: _check_resource_slice,
            catalog.CERTIFICATE_SIGNING_REQUESTS.group_resource: _check_csr,
            catalog.POD_CERTIFICATE_REQUESTS.group_resource: self._check_pod_certificate_request,
        }

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:  # noqa: ARG002
        # A node that has no name must not write anything at all, so every resource passes here.
        return operation is not Operation.CONNECT

    async def admit(self, request: Request) -> Any:
        node_name = node_name_of(request.user)
        if node_name is None:
            return request.obj
        if not node_name:
            raise refused(request, f"could not determine node from user {quote(request.user.name)}")
        check = self._checks.get(request.resource)
        if check is not None:
            check(node_name, request)
        _check_lifetime(node_name, request)
        return request.obj

    # -------------------------------------------------------------- pods and their accounts

    def _check_pod(self, node_name: str, request: Request) -> None:
        operation = request.operation
        match request.subresource:
            case "":
                if operation is Operation.CREATE:
                    self._check_mirror_pod(node_name, request)
                elif operation is not Operation.DELETE:
                    raise refused(
                        request,
                        f"unexpected operation {quote(operation)}, "
                        f"node {quote(node_name)} can only create and delete mirror pods",
                    )
                elif self._existing_pod(request).spec.node_name != node_name:
                    raise refused(
                        request, f"node {quote(node_name)} can only delete pods with spec.nodeName set to itself"
                    )
            case "status":
                _check_pod_status(node_name, request)
            case "eviction":
                if operation is not Operation.CREATE:
                    raise refused(request, f"unexpected operation {operation}")
                if self._existing_pod(request).spec.node_name != node_name:
                    raise refused(request, f"node {node_name} can only evict pods with spec.nodeName set to itself")
            case other:
                raise refused(
                    request, f"unexpected pod subresource {quote(other)}, only 'status' and 'eviction' are allowed"
                )

    def _existing_pod(self, request: Request) -> Pod:
        name = requested_name(request)
        pod = self._pod_named(request.namespace, name)
        if pod is None:
            raise errors.not_found(catalog.PODS.group_resource, name)
        return pod

    def _check_mirror_pod(self, node_name: str, request: Request) -> None:
        pod: Pod = request.obj
        who = f"node {quote(node_name)}"
        if MIRROR_POD_ANNOTATION not in pod.metadata.annotations:
            annotation = quote(MIRROR_POD_ANNOTATION)
            raise refused(request, f"pod does not have {annotation} annotation, {who} can only create mirror pods")
        if pod.spec.node_name != node_name:
            raise refused(request, f"{who} can only create pods with spec.nodeName set to itself")
        owners = pod.metadata.owner_references
        if len(owners) > 1:
            raise refused(request, f"{who} can only create pods with a single owner reference set to itself")
        if not owners or (owners[0].api_version, owners[0].kind, owners[0].name) != ("v1", "Node", node_name):
            raise refused(request, f"{who} can only create pods with an owner reference set to itself")
        owner = owners[0]
        if not owner.controller:
            raise refused(request, f"{who} can only create pods with a controller owner reference set to itself")
        if owner.block_owner_deletion:
            raise refused(request, f"{who} must not set blockOwnerDeletion on an owner reference")
        node = self._node_named(node_name)
        if node is None:
            raise errors.not_found(catalog.NODES.group_resource, node_name)
        if owner.uid != node.metadata.uid:
            raise refused(request, f"node {node_name} UID mismatch: expected {owner.uid} got {node.metadata.uid}")
        if pod.spec.service_account_name:
            raise refused(request, f"{who} can not create pods that reference a service account")
        if pod.spec.image_pull_secrets:
            raise refused(request, f"{who} can not create pods that reference secrets")

    def _check_service_account(self, node_name: str, request: Request) -> None:
        """A node gets tokens for the pods that run on it."""
        if request.operation is not Operation.CREATE or request.subresource != "token":
            return
        token_request: TokenRequest = request.obj
        ref = token_request.spec.bound_object_ref
        if ref is None or (ref.api_version, ref.kind) != ("v1", "Pod") or not ref.name:
            raise refused(request, "node requested token not bound to a pod")
        if not ref.uid:
            raise refused(request, "node requested token with a pod binding without a uid")
        pod = self._pod_named(request.namespace, ref.name)
        if pod is None:
            raise errors.not_found(catalog.PODS.group_resource, ref.name)
        if ref.uid != pod.metadata.uid:
            raise refused(
                request,
                f"the UID in the bound object reference ({ref.uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        if pod.spec.node_name != node_name:
            raise refused(request, "node requested token bound to a pod scheduled on a different node")

    def _check_pod_certificate_request(self, node_name: str, request: Request) -> None:
        """A node asks for the certificates of the pods that run on it, whatever signer it names.

        What may be right in a moment, when this server's caches have followed, is a 500 that clients repeat.
        """
        if request.operation is not Operation.CREATE:
            raise refused(request, f"unexpected operation {request.operation}")
        if request.subresource:
            raise refused(request, f"unexpected subresource {quote(request.subresource)}")
        asked: PodCertificateRequest = request.obj
        spec = asked.spec
        if spec.node_name != node_name:
            why = f"which is not the requesting node {quote(node_name)}"
            raise refused(request, f"PodCertificateRequest.Spec.NodeName={quote(spec.node_name)}, {why}")
        named, pod_name = "named in the PodCertificateRequest", quote(f"{request.namespace}/{spec.pod_name}")
        of_pod = f"PodCertificateRequest for pod {pod_name}"
        # 1. The node.
        node = self._node_named(spec.node_name)
        if node is None:
            where = f"while retrieving node {quote(spec.node_name)} {named}"
            raise errors.untyped(f"{where}: node {quote(spec.node_name)} not found")
        if node.metadata.uid != spec.node_uid:
            why = f"names node UID {quote(spec.node_uid)}, inconsistent with the running node"
            raise errors.untyped(f"{of_pod} {why} ({quote(node.metadata.uid)})")
        # 2. The pod.
        pod = self._pod_named(request.namespace, spec.pod_name)
        if pod is None:
            raise errors.untyped(f"while retrieving pod {pod_name} {named}: pod {quote(spec.pod_name)} not found")
        if pod.metadata.uid != spec.pod_uid:
            why = f"contains pod UID ({quote(spec.pod_uid)}) which differs from running pod {quote(pod.metadata.uid)}"
            raise errors.untyped(f"{of_pod} {why}")
        if pod.spec.node_name != spec.node_name:
            raise refused(request, f"pod {pod_name} is not running on node {quote(spec.node_name)} {named}")
        if MIRROR_POD_ANNOTATION in pod.metadata.annotations:
            raise refused(request, f"pod {pod_name} is a mirror pod")
        # 3. Its account. A pod's never changes, so a difference is no matter of time.
        own = pod.spec.service_account_name
        if own != spec.service_account_name:
            why = f"contains serviceAccountName ({quote(spec.service_account_name)}) that differs from running pod"
            raise refused(request, f"{of_pod} {why} ({quote(own)})")
        account = self._account_named(request.namespace, own)
        if account is None:
            where = f"while retrieving service account {quote(f'{request.namespace}/{own}')} {named}"
            raise errors.untyped(f"{where}: serviceaccount {quote(own)} not found")
        if account.metadata.uid != spec.service_account_uid:
            why = f"names service account UID {quote(spec.service_account_uid)}, which differs from the running service"
            raise errors.untyped(f"{of_pod} {why} account ({quote(account.metadata.uid)})")


def _check_pod_status(node_name: str, request: Request) -> None:
    if request.operation is not Operation.UPDATE:
        raise refused(request, f"unexpected operation {quote(request.operation)}")
    who = f"node {quote(node_name)}"
    if request.old.spec.node_name != node_name:
        why = "can only update pod status for pods with spec.nodeName set to itself"
        raise refused(request, f"{who} {why}")
    if request.old.metadata.labels != request.obj.metadata.labels:
        raise refused(request, f"{who} cannot update labels through pod status")


# ------------------------------------------------------------------ what decides when objects go


def _check_lifetime(node_name: str, request: Request) -> None:
    """Owners and finalizers, on whatever a node writes, however it comes into being.

    With owners of its choice a node has its Node collected and makes it anew without an operator's taints
    (CVE-2025-5187, which Kubernetes stops on update only), or holds up the deletion of somebody else's object; with a
    finalizer it keeps what is to go, or lets go what a finalizer of others keeps. A kubelet sets one owner, its Node,
    on its Lease, CSINode, ResourceSlices and mirror pods, the pod on a request for its certificate, and no finalizer.
    """
    new = getattr(request.obj, "metadata", None)
    if new is None:
        return
    old = ObjectMeta() if request.old is None else request.old.metadata
    who = f"node {quote(node_name)}"
    if request.resource == catalog.NODES.group_resource and new.owner_references != old.owner_references:
        raise refused(request, f"{who} is not allowed to set ownerReferences")
    for owner in new.owner_references:
        if owner in old.owner_references or _is_pod_of_request(owner, request):
            continue
        if (owner.api_version, owner.kind, owner.name) != ("v1", "Node", node_name) or owner.block_owner_deletion:
            raise refused(request, f"{who} can only set an owner reference to itself, without blockOwnerDeletion")
    if set(new.finalizers) != set(old.finalizers):
        raise refused(request, f"{who} is not allowed to modify finalizers")


def _is_pod_of_request(owner: OwnerReference, request: Request) -> bool:
    """Whether a request for a pod's certificate is to go with that pod, which was looked up before."""
    if request.resource != catalog.POD_CERTIFICATE_REQUESTS.group_resource or owner.block_owner_deletion:
        return False
    spec = request.obj.spec
    return (owner.kind, owner.name, owner.uid) == ("Pod", spec.pod_name, spec.pod_uid)


# ------------------------------------------------------------------ the node's own objects


def _check_node(node_name: str, request: Request) -> None:
    name = request.name or (request.obj.metadata.name if request.obj is not None else "")
    who = f"node {quote(node_name)}"
    if name != node_name:
        raise refused(request, f"{who} is not allowed to modify node {quote(name)}")
    if request.operation is Operation.CREATE:
        node: Node = request.obj
        if node.spec.config_source is not None:
            raise refused(request, f"{who} is not allowed to create pods with a non-nil configSource")
        labels = forbidden_labels(_changed_keys(node.metadata.labels, {}))
        if labels:
            raise refused(request, f"{who} is not allowed to set the following labels: {', '.join(labels)}")
    elif request.operation is Operation.UPDATE:
        _check_node_update(who, request)


def _check_node_update(who: str, request: Request) -> None:
    new: Node = request.obj
    old: Node = request.old
    if new.spec.config_source is not None and new.spec.config_source != old.spec.config_source:
        raise refused(request, f"{who} is not allowed to update configSource to a new non-nil configSource")
    if new.spec.taints != old.spec.taints:
        raise refused(request, f"{who} is not allowed to modify taints")
    # An owner reference to something that does not exist would let the garbage collector delete the node, which could
    # then come back with other taints and labels (CVE-2025-5187).
    if new.metadata.owner_references != old.metadata.owner_references:
        raise refused(request, f"{who} is not allowed to modify ownerReferences")
    labels = forbidden_labels(_changed_keys(new.metadata.labels, old.metadata.labels))
    if labels:
        raise refused(request, f"is not allowed to modify labels: {', '.join(labels)}")


def _changed_keys(new: Mapping[str, str], old: Mapping[str, str]) -> set[str]:
    return {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}


def forbidden_labels(keys: Iterable[str]) -> list[str]:
    """Those of the label keys that no node may set, change or remove on itself, sorted."""
    return sorted(key for key in keys if _is_forbidden_label(key))


def _is_forbidden_label(key: str) -> bool:
    namespace, slash, _ = key.partition("/")
    if not slash:
        return False
    if _is_under(namespace, (_NODE_RESTRICTION,)):
        return True
    if not _is_under(namespace, _KUBERNETES_DOMAINS):
        return False
    return key not in _KUBELET_LABELS and not _is_under(namespace, _KUBELET_NAMESPACES)


def _is_under(namespace: str, domains: Iterable[str]) -> bool:
    return any(namespace == domain or namespace.endswith(f".{domain}") for domain in domains)


def _check_lease(node_name: str, request: Request) -> None:
    if request.namespace != KUBE_NODE_LEASE_NAMESPACE:
        raise refused(request, f"can only access leases in the {quote(KUBE_NODE_LEASE_NAMESPACE)} system namespace")
    if _own_name(request) != node_name:
        raise refused(request, "can only access node lease with the same name as the requesting node")


def _check_csi_node(node_name: str, request: Request) -> None:
    if _own_name(request) != node_name:
        raise refused(request, "can only access CSINode with the same name as the requesting node")


def _own_name(request: Request) -> str:
    """The name of what is written; a name that the server is to make is nobody's."""
    name: str = request.obj.metadata.name if request.operation is Operation.CREATE else request.name
    return name


def _check_resource_slice(node_name: str, request: Request) -> None:
    """The authorizer knows which slice may be updated, but sees neither a new one nor the members of a collection."""
    if request.operation is Operation.CREATE and request.obj.spec.node_name != node_name:
        raise refused(request, "can only create ResourceSlice with the same NodeName as the requesting node")
    if request.operation is Operation.DELETE and request.old.spec.node_name != node_name:
        raise refused(request, "can only delete ResourceSlice with the same NodeName as the requesting node")


def _check_csr(node_name: str, request: Request) -> None:
    if request.operation is not Operation.CREATE or not names_node(request.obj.spec.signer_name):
        return
    try:
        requested = x509_request.parse_pem(request.obj.spec.request or b"")
    except ParseError as err:
        raise refused(request, f"unable to parse csr: {err}") from err
    own_name = f"{NODE_USER_PREFIX}{node_name}"
    if requested.subject.common_name != own_name:
        raise refused(request, f"can only create a node CSR with CN={own_name}")
