"""A small valid object of each kind that clients write, as JSON trees."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

Tree = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_LEASE: Tree = {"holderIdentity": "x", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
_SUBJECTS = [{"apiGroup": _RBAC, "kind": "Group", "name": "example"}]


@cache
def _certificate_request(node: str) -> str:
    subject = Subject(organizations=("system:nodes",), common_name=f"system:node:{node}")
    return base64.b64encode(build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)).decode()


def _role_ref(kind: str) -> Tree:
    return {"apiGroup": _RBAC, "kind": kind, "name": "view"}


def sample(plural: str, name: str, namespace: str, node: str) -> Tree:
    """An object for the collection ``plural``; ``node`` is who asks, where that matters.

    Raises:
        KeyError: nobody is known to write this kind.
    """
    version, kind, body = _KINDS[plural]
    tree: Tree = {"apiVersion": version, "kind": kind, "metadata": {"name": name} | _in(namespace), **body}
    if plural == "certificatesigningrequests":
        tree["spec"] = {
            "request": _certificate_request(node),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        }
    if plural == "events":
        tree["involvedObject"] = {
            "kind": "Node",
            "name": node,
            "namespace": "" if namespace == "default" else namespace,
        }
    return tree


def _in(namespace: str) -> Tree:
    return {"namespace": namespace} if namespace else {}


_KINDS: dict[str, tuple[str, str, Tree]] = {
    "certificatesigningrequests": ("certificates.k8s.io/v1", "CertificateSigningRequest", {}),
    "clusterrolebindings": (
        f"{_RBAC}/v1",
        "ClusterRoleBinding",
        {"subjects": _SUBJECTS, "roleRef": _role_ref("ClusterRole")},
    ),
    "clusterroles": (f"{_RBAC}/v1", "ClusterRole", {"rules": []}),
    "configmaps": ("v1", "ConfigMap", {"data": {"a": "b"}}),
    "csinodes": ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": []}}),
    "events": ("v1", "Event", {"reason": "Starting", "type": "Normal", "message": "starting"}),
    "leases": ("coordination.k8s.io/v1", "Lease", {"spec": _LEASE}),
    "localsubjectaccessreviews": (
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview",
        {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}},
    ),
    "namespaces": ("v1", "Namespace", {}),
    "nodes": ("v1", "Node", {}),
    "pods": ("v1", "Pod", {"spec": {"containers": [{"name": "x", "image": "x"}]}}),
    "rolebindings": (f"{_RBAC}/v1", "RoleBinding", {"subjects": _SUBJECTS, "roleRef": _role_ref("ClusterRole")}),
    "roles": (f"{_RBAC}/v1", "Role", {"rules": []}),
    "secrets": ("v1", "Secret", {"data": {"a": "Yg=="}}),
    "selfsubjectaccessreviews": (
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    "selfsubjectreviews": ("authentication.k8s.io/v1", "SelfSubjectReview", {}),
    "selfsubjectrulesreviews": (
        "authorization.k8s.io/v1",
        "SelfSubjectRulesReview",
        {"spec": {"namespace": "default"}},
    ),
    "serviceaccounts": ("v1", "ServiceAccount", {}),
    "subjectaccessreviews": (
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    "token": ("authentication.k8s.io/v1", "TokenRequest", {"spec": {"audiences": [], "expirationSeconds": 3600}}),
    "tokenreviews": ("authentication.k8s.io/v1", "TokenReview", {"spec": {"token": "x"}}),
}

CONDITIONS: dict[str, Tree] = {
    "approval": {"type": "Approved", "status": "True", "reason": "x", "message": "x"},
    "status": {"type": "Failed", "status": "True", "reason": "x", "message": "x"},
}
