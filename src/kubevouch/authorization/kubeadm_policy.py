"""The roles and bindings that ``kubeadm init`` adds, with which nodes join by bootstrap token.

The API server does not make them and does not keep them complete. Source: kubeadm phases kubeconfig, bootstrap-token,
upload-config, kubelet-finalize (Kubernetes 1.36).
"""

from __future__ import annotations

from functools import cache

from kubevouch.authorization.policy import (
    Policy,
    cluster_role,
    cluster_role_binding,
    group,
    namespaced_role,
    role_binding,
    rule,
    user,
)
from kubevouch.wellknown import (
    ANONYMOUS_USER,
    CLUSTER_ADMIN_ROLE,
    CLUSTER_ADMINS_GROUP,
    CLUSTER_INFO_CONFIGMAP,
    DEFAULT_NODE_TOKEN_GROUP,
    KUBE_PUBLIC_NAMESPACE,
    KUBE_SYSTEM_NAMESPACE,
    NODES_GROUP,
)

KUBELET_CLIENT_USER = "kube-apiserver-kubelet-client"
KUBEADM_CONFIG = "kubeadm-config"
KUBELET_CONFIG = "kubelet-config"
KUBEADM_CERTS = "kubeadm-certs"

_REQUESTS = "system:certificates.k8s.io:certificatesigningrequests"


@cache
def kubeadm_policy() -> Policy:
    """Cluster admins, joining nodes, and what everybody may read before joining."""
    joining = group(DEFAULT_NODE_TOKEN_GROUP)
    return Policy(
        cluster_roles=(cluster_role("kubeadm:get-nodes", rule("get", "", "nodes")),),
        cluster_role_bindings=(
            cluster_role_binding(CLUSTER_ADMINS_GROUP, group(CLUSTER_ADMINS_GROUP), role=CLUSTER_ADMIN_ROLE),
            cluster_role_binding("kubeadm:get-nodes", joining),
            cluster_role_binding("kubeadm:kubelet-bootstrap", joining, role="system:node-bootstrapper"),
            cluster_role_binding("kubeadm:node-autoapprove-bootstrap", joining, role=f"{_REQUESTS}:nodeclient"),
            cluster_role_binding(
                "kubeadm:node-autoapprove-certificate-rotation",
                group(NODES_GROUP),
                role=f"{_REQUESTS}:selfnodeclient",
            ),
            cluster_role_binding(
                "kubeadm:apiserver-kubelet-client", user(KUBELET_CLIENT_USER), role="system:kubelet-api-admin"
            ),
        ),
        roles=(
            namespaced_role(
                KUBE_PUBLIC_NAMESPACE,
                "kubeadm:bootstrap-signer-clusterinfo",
                rule("get", "", "configmaps", [CLUSTER_INFO_CONFIGMAP]),
            ),
            namespaced_role(
                KUBE_SYSTEM_NAMESPACE,
                "kubeadm:nodes-kubeadm-config",
                rule("get", "", "configmaps", [KUBEADM_CONFIG]),
            ),
            namespaced_role(
                KUBE_SYSTEM_NAMESPACE, "kubeadm:kubelet-config", rule("get", "", "configmaps", [KUBELET_CONFIG])
            ),
        ),
        role_bindings=(
            role_binding(KUBE_PUBLIC_NAMESPACE, "kubeadm:bootstrap-signer-clusterinfo", user(ANONYMOUS_USER)),
            role_binding(KUBE_SYSTEM_NAMESPACE, "kubeadm:nodes-kubeadm-config", joining, group(NODES_GROUP)),
            role_binding(KUBE_SYSTEM_NAMESPACE, "kubeadm:kubelet-config", group(NODES_GROUP), joining),
        ),
    ).unmarked()


@cache
def kubeadm_certs_policy() -> Policy:
    """What ``upload-certs`` adds: joining control planes may read the encrypted CA keys."""
    name = "kubeadm:kubeadm-certs"
    return Policy(
        roles=(namespaced_role(KUBE_SYSTEM_NAMESPACE, name, rule("get", "", "secrets", [KUBEADM_CERTS])),),
        role_bindings=(role_binding(KUBE_SYSTEM_NAMESPACE, name, group(DEFAULT_NODE_TOKEN_GROUP)),),
    ).unmarked()
