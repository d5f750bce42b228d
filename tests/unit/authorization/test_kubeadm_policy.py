from __future__ import annotations

import pytest

from decisions import rbac_policy
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.bootstrap_policy import bootstrap_policy
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.kubeadm_policy import kubeadm_certs_policy, kubeadm_policy

RBAC = rbac_policy(bootstrap_policy() + kubeadm_policy())
JOINING = UserInfo(
    "system:bootstrap:abcdef", groups=("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token")
)
OTHER_TOKEN = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
NODE = UserInfo("system:node:n", groups=("system:nodes", "system:authenticated"))
ADMIN = UserInfo("kubernetes-admin", groups=("kubeadm:cluster-admins",))
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
CSR = ("certificates.k8s.io", "v1", "certificatesigningrequests")


@pytest.mark.parametrize(
    ("user", "verb", "question", "allowed"),
    [
        (JOINING, "create", CSR, True),
        (JOINING, "create", (*CSR, "nodeclient"), True),
        (JOINING, "create", (*CSR, "selfnodeclient"), False),
        (JOINING, "update", (*CSR, "approval", "", "any"), False),
        (JOINING, "get", ("", "v1", "nodes", "", "", "n"), True),
        (JOINING, "list", ("", "v1", "nodes"), False),
        (JOINING, "get", ("", "v1", "configmaps", "", "kube-system", "kubeadm-config"), True),
        (JOINING, "get", ("", "v1", "configmaps", "", "kube-system", "kubelet-config"), True),
        (JOINING, "get", ("", "v1", "configmaps", "", "kube-system", "other"), False),
        (JOINING, "get", ("", "v1", "secrets", "", "kube-system", "kubeadm-certs"), False),
        (OTHER_TOKEN, "create", CSR, False),
        (OTHER_TOKEN, "create", (*CSR, "nodeclient"), False),
        (NODE, "create", (*CSR, "selfnodeclient"), True),
        (NODE, "create", (*CSR, "nodeclient"), False),
        (NODE, "get", ("", "v1", "configmaps", "", "kube-system", "kubelet-config"), True),
        (NODE, "get", ("", "v1", "configmaps", "", "default", "kubelet-config"), False),
        (NODE, "create", CSR, False),
        (ADMIN, "delete", ("", "v1", "secrets", "", "kube-system", "x"), True),
        (ANONYMOUS, "get", ("", "v1", "configmaps", "", "kube-public", "cluster-info"), True),
        (ANONYMOUS, "list", ("", "v1", "configmaps", "", "kube-public"), False),
        (ANONYMOUS, "watch", ("", "v1", "configmaps", "", "kube-public", "cluster-info"), False),
        (ANONYMOUS, "get", ("", "v1", "configmaps", "", "kube-system", "cluster-info"), False),
        (JOINING, "get", ("", "v1", "configmaps", "", "kube-public", "cluster-info"), False),
        (UserInfo("kube-apiserver-kubelet-client"), "get", ("", "v1", "nodes", "proxy", "", "n"), True),
    ],
)
def test_who_may_what(user: UserInfo, verb: str, question: tuple[str, ...], allowed: bool) -> None:
    verdict = RBAC.decide(Attributes(user, verb, *question))
    assert (verdict.decision is Decision.ALLOW) is allowed
    assert verdict.reason == "" or allowed


def test_uploaded_keys_are_for_joining_control_planes() -> None:
    question = ("get", "", "v1", "secrets", "", "kube-system", "kubeadm-certs")
    uploaded = rbac_policy(kubeadm_certs_policy())
    assert uploaded.decide(Attributes(JOINING, *question)).decision is Decision.ALLOW
    for user in (OTHER_TOKEN, NODE, ANONYMOUS):
        assert uploaded.decide(Attributes(user, *question)).decision is Decision.NO_OPINION


def test_the_server_does_not_keep_them_complete() -> None:
    policy = kubeadm_policy() + kubeadm_certs_policy()
    for obj in (*policy.every_role, *policy.every_binding):
        assert not obj.metadata.labels
        assert not obj.metadata.annotations
