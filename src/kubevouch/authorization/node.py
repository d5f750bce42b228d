"""The node authorizer: what a kubelet may read and write.

Source: plugin/pkg/auth/authorizer/node (Kubernetes 1.36). The authorizer does not see objects, so a node may ask to
write any Node; which one it may really write is for admission/node_restriction.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authentication.node_identifier import node_name_of
from kubevouch.authorization.interface import Attributes, Decision, Rules, Verdict
from kubevouch.authorization.rbac_rules import CompiledRules
from kubevouch.machinery.scheme import GroupResource
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.selectors import SelectorError, parse_field_selector
from kubevouch.wellknown import KUBE_NODE_LEASE_NAMESPACE

_ALLOW = Verdict(Decision.ALLOW)
_NO_OPINION = Verdict(Decision.NO_OPINION)

_READ = ("get", "list", "watch")
_OWN = ("get", "create", "update", "patch", "delete")

_STORAGE = "storage.k8s.io"
_RESOURCE = "resource.k8s.io"


class NodeGraph(Protocol):
    """Knows which objects the pods of a node lead to."""

    def leads_to(self, node_name: str, resource: GroupResource, namespace: str, name: str) -> bool:
        """Whether the object belongs to, or is needed by, something that runs on the node."""
        ...


POD_CERTIFICATE_REQUESTS = GroupResource("certificates.k8s.io", "podcertificaterequests")

NodeOfRequest = Callable[[str, str], str]


class NoPods:
    """The graph of a server without pods: no node needs anything but its own requests for pods' certificates.

    ``node_of`` tells of such a request, by namespace and name, which node it names; empty where there is no request.
    """

    def __init__(self, node_of: NodeOfRequest = lambda namespace, name: "") -> None:  # noqa: ARG005
        self.node_of = node_of

    def leads_to(self, node_name: str, resource: GroupResource, namespace: str, name: str) -> bool:
        return resource == POD_CERTIFICATE_REQUESTS and self.node_of(namespace, name) == node_name


class NodeAuthorizer:
    """Decides for users that are nodes and has no opinion on others.

    Args:
        rules: what every node may do, whatever the object: the rules of ClusterRole ``system:node``.
        graph: which objects belong to which node.
    """

    def __init__(self, rules: Iterable[PolicyRule], graph: NodeGraph | None = None) -> None:
        self._rules = CompiledRules(rules)
        self._graph = graph or NoPods()
        self._restricted: dict[GroupResource, Callable[[str, Attributes], Verdict]] = {
            GroupResource("", "secrets"): self._read_related,
            GroupResource("", "configmaps"): self._read_related,
            GroupResource("", "persistentvolumeclaims"): self._persistent_volume_claim,
            GroupResource("", "persistentvolumes"): self._get_related,
            GroupResource(_RESOURCE, "resourceclaims"): self._get_related,
            GroupResource(_STORAGE, "volumeattachments"): self._get_related,
            GroupResource("", "serviceaccounts"): self._service_account,
            GroupResource("coordination.k8s.io", "leases"): self._lease,
            GroupResource(_STORAGE, "csinodes"): self._csi_node,
            GroupResource(_RESOURCE, "resourceslices"): self._resource_slice,
            GroupResource("", "nodes"): self._node,
            GroupResource("", "pods"): self._pod,
            POD_CERTIFICATE_REQUESTS: self._pod_certificate_request,
            GroupResource("kubevouch.io", "nodeidentities"): self._node_identity,
        }

    async def authorize(self, attributes: Attributes) -> Verdict:
        node_name = node_name_of(attributes.user)
        if node_name is None:
            return _NO_OPINION
        if not node_name:
            return _refuse(f"unknown node for user {quote(attributes.user.name)}")
        if not attributes.is_resource_request:
            return _ALLOW if self._rules.allows_url(attributes.verb, attributes.path) else _NO_OPINION
        check = self._restricted.get(GroupResource(attributes.group, attributes.resource))
        if check is not None:
            return check(node_name, attributes)
        allowed = self._rules.allows_resource(
            attributes.verb, attributes.group, attributes.resource, attributes.subresource, attributes.name
        )
        return _ALLOW if allowed else _NO_OPINION

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:  # noqa: ARG002 - the interface's
        if node_name_of(user) is None:
            return Rules(())
        return Rules((), incomplete=True, error="node authorizer does not support user rule resolution")

    # -------------------------------------------------------------- by relation

    def _related(self, node_name: str, attributes: Attributes) -> Verdict:
        if not attributes.name:
            return _refuse("No Object name found")
        resource = GroupResource(attributes.group, attributes.resource)
        if self._graph.leads_to(node_name, resource, attributes.namespace, attributes.name):
            return _ALLOW
        return _refuse(f"no relationship found between node '{node_name}' and this object")

    def _read_related(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in _READ:
            return _refuse("can only read resources of this type")
        if attributes.subresource:
            return _refuse("cannot read subresource")
        if not attributes.namespace:
            return _refuse("can only read namespaced object of this type")
        return self._related(node_name, attributes)

    def _get_related(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.verb != "get":
            return _refuse("can only get individual resources of this type")
        if attributes.subresource:
            return _refuse("cannot get subresource")
        return self._related(node_name, attributes)

    def _persistent_volume_claim(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.subresource != "status":
            return self._get_related(node_name, attributes)
        if attributes.verb not in ("update", "patch"):
            return _refuse("can only get/update/patch this type")
        return self._related(node_name, attributes)

    def _service_account(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read_related(node_name, attributes)
        if attributes.verb != "create" or not attributes.name:
            return _refuse("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _refuse("can only create token subresource of serviceaccount")
        return self._related(node_name, attributes)

    # -------------------------------------------------------------- by name

    def _lease(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in _OWN:
            return _refuse("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != KUBE_NODE_LEASE_NAMESPACE:
            return _refuse(f"can only access leases in the {quote(KUBE_NODE_LEASE_NAMESPACE)} system namespace")
        # A creation has no name yet; admission sees the object.
        if attributes.verb != "create" and attributes.name != node_name:
            return _refuse("can only access node lease with the same name as the requesting node")
        return _ALLOW

    def _csi_node(self, node_name: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in _OWN:
            return _refuse("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _refuse("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node_name:
            return _refuse("can only access CSINode with the same name as the requesting node")
        return _ALLOW

    def _node_identity(self, node_name: str, attributes: Attributes) -> Verdict:
        """Ours: the operator's word on the machine is for its agent, too."""
        if attributes.verb != "get" or attributes.subresource or attributes.name != node_name:
            return _refuse("can only get the NodeIdentity with the same name as the requesting node")
        return _ALLOW

    def _node(self, node_name: str, attributes: Attributes) -> Verdict:
        writes = ("create", "update", "patch") if not attributes.subresource else ("update", "patch")
        if attributes.subresource in ("", "status") and attributes.verb in writes:
            return _ALLOW
        if attributes.subresource or attributes.verb not in _READ:
            return _NO_OPINION
        if attributes.name == node_name:
            return _ALLOW
        if not attributes.name:
            return _refuse(f"node '{node_name}' cannot read all nodes, only its own Node object")
        return _refuse(f"node '{node_name}' cannot read '{attributes.name}', only its own Node object")

    # -------------------------------------------------------------- by selector

    def _pod(self, node_name: str, attributes: Attributes) -> Verdict:
        verb, subresource = attributes.verb, attributes.subresource
        if not subresource and verb == "get":
            return self._get_related(node_name, attributes)
        if not subresource and verb in ("list", "watch"):
            if _selects(attributes.field_selector, "spec.nodeName", node_name):
                return _ALLOW
            if attributes.name:
                return self._related(node_name, attributes)
            return _refuse("can only list/watch pods with spec.nodeName field selector")
        writes = {"": ("create", "delete"), "status": ("update", "patch"), "eviction": ("create",)}
        return _ALLOW if verb in writes.get(subresource, ()) else _NO_OPINION

    def _resource_slice(self, node_name: str, attributes: Attributes) -> Verdict:
        verb = attributes.verb
        if attributes.subresource:
            return _refuse("cannot authorize ResourceSlice subresources")
        if verb == "create":
            return _ALLOW
        if verb in ("get", "update", "patch", "delete"):
            return self._related(node_name, attributes)
        if verb in ("watch", "list", "deletecollection"):
            if _selects(attributes.field_selector, "spec.nodeName", node_name):
                return _ALLOW
            return _refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _refuse(
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection"
        )

    def _pod_certificate_request(self, node_name: str, attributes: Attributes) -> Verdict:
        verb = attributes.verb
        if attributes.subresource:
            return _refuse("nodes may not access the status subresource of PodCertificateRequests")
        if verb == "create":
            return _ALLOW
        if verb == "get":
            return self._related(node_name, attributes)
        if verb in ("list", "watch"):
            if _selects(attributes.field_selector, "spec.nodeName", node_name):
                return _ALLOW
            return _refuse("can only list/watch podcertificaterequests with nodeName field selector")
        return _refuse(f"nodes may not {verb} podcertificaterequests")


def _refuse(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


def _selects(field_selector: str, name: str, value: str) -> bool:
    """Whether one of the selector's terms holds the field at exactly this value."""
    try:
        terms = parse_field_selector(field_selector).terms
    except SelectorError:
        # The handler will refuse the request; here it only must not open anything.
        return False
    return any(term.field == name and term.value == value and not term.negated for term in terms)
