from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from asynctest import async_test
from decisions import rbac_policy
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.bootstrap_policy import bootstrap_policy, cluster_trust_bundle_policy, node_rules
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.rbac import RBACAuthorizer
from kubevouch.machinery.codec import json_codec

VECTORS = Path(__file__).parents[2] / "vectors" / "etcd"
POLICY = bootstrap_policy()
ROLES = {role.metadata.name: role for role in POLICY.cluster_roles}
BOUND = {binding.metadata.name: binding for binding in POLICY.cluster_role_bindings}
CSR = "certificates.k8s.io"
PREFIX = "system:certificates.k8s.io:"


def shown(rules: Iterable[PolicyRule] | None) -> list[str]:
    """``verbs group/resources names`` or ``verbs urls`` of each rule."""
    lines = []
    for rule in rules or ():
        verbs = ",".join(rule.verbs or [])
        if rule.non_resource_urls:
            lines.append(f"{verbs} {' '.join(rule.non_resource_urls)}")
            continue
        place = f"{','.join(rule.api_groups)}/{','.join(rule.resources)}"
        lines.append(" ".join((verbs, place, *rule.resource_names)))
    return lines


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("cluster-admin", ["* */*", "* *"]),
        (
            "system:discovery",
            ["get /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"],
        ),
        ("system:public-info-viewer", ["get /healthz /livez /readyz /version /version/"]),
        (
            "system:basic-user",
            [
                "create authorization.k8s.io/selfsubjectaccessreviews,selfsubjectrulesreviews",
                "create authentication.k8s.io/selfsubjectreviews",
            ],
        ),
        (
            "system:monitoring",
            [
                "get /flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
                "get /nodes/metrics",
            ],
        ),
        ("system:node-bootstrapper", [f"create,get,list,watch {CSR}/certificatesigningrequests"]),
        (f"{PREFIX}certificatesigningrequests:nodeclient", [f"create {CSR}/certificatesigningrequests/nodeclient"]),
        (
            f"{PREFIX}certificatesigningrequests:selfnodeclient",
            [f"create {CSR}/certificatesigningrequests/selfnodeclient"],
        ),
        (f"{PREFIX}kube-apiserver-client-approver", [f"approve {CSR}/signers kubernetes.io/kube-apiserver-client"]),
        (
            f"{PREFIX}kube-apiserver-client-kubelet-approver",
            [f"approve {CSR}/signers kubernetes.io/kube-apiserver-client-kubelet"],
        ),
        (f"{PREFIX}kubelet-serving-approver", [f"approve {CSR}/signers kubernetes.io/kubelet-serving"]),
        (f"{PREFIX}legacy-unknown-approver", [f"approve {CSR}/signers kubernetes.io/legacy-unknown"]),
        (
            "system:auth-delegator",
            ["create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"],
        ),
        (
            "system:kubelet-api-admin",
            [
                "get,list,watch /nodes",
                "proxy /nodes",
                "* /nodes/log,nodes/metrics,nodes/proxy,nodes/stats",
                "* /nodes/configz,nodes/healthz,nodes/pods",
            ],
        ),
        (
            "system:controller:certificate-controller",
            [
                f"delete,get,list,watch {CSR}/certificatesigningrequests",
                f"update {CSR}/certificatesigningrequests/approval,certificatesigningrequests/status",
                f"approve {CSR}/signers kubernetes.io/kube-apiserver-client-kubelet",
                (
                    f"sign {CSR}/signers kubernetes.io/kube-apiserver-client "
                    "kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving "
                    "kubernetes.io/legacy-unknown"
                ),
                "create authorization.k8s.io/subjectaccessreviews",
                "create,patch,update ,events.k8s.io/events",
            ],
        ),
        (
            "system:controller:root-ca-cert-publisher",
            ["create,update /configmaps", "create,patch,update ,events.k8s.io/events"],
        ),
        (
            "system:controller:ttl-controller",
            ["list,patch,update,watch /nodes", "create,patch,update ,events.k8s.io/events"],
        ),
    ],
)
def test_rules_of_a_cluster_role(name: str, rules: list[str]) -> None:
    assert shown(ROLES[name].rules) == rules


@pytest.mark.parametrize(
    ("namespace", "name", "rules"),
    [
        ("kube-system", "system:controller:bootstrap-signer", ["get,list,watch /secrets"]),
        (
            "kube-public",
            "system:controller:bootstrap-signer",
            [
                "get,list,watch /configmaps",
                "update /configmaps cluster-info",
                "create,patch,update ,events.k8s.io/events",
            ],
        ),
        (
            "kube-system",
            "system:controller:token-cleaner",
            ["delete,get,list,watch /secrets", "create,patch,update ,events.k8s.io/events"],
        ),
        (
            "kube-system",
            "extension-apiserver-authentication-reader",
            ["get,list,watch /configmaps extension-apiserver-authentication"],
        ),
    ],
)
def test_rules_of_a_role(namespace: str, name: str, rules: list[str]) -> None:
    (found,) = (each for each in POLICY.roles if (each.metadata.namespace, each.metadata.name) == (namespace, name))
    assert shown(found.rules) == rules


@pytest.mark.parametrize(
    ("name", "subjects"),
    [
        ("cluster-admin", ["Group system:masters"]),
        ("system:discovery", ["Group system:authenticated"]),
        ("system:basic-user", ["Group system:authenticated"]),
        ("system:public-info-viewer", ["Group system:authenticated", "Group system:unauthenticated"]),
        ("system:monitoring", ["Group system:monitoring"]),
        ("system:kube-controller-manager", ["User system:kube-controller-manager"]),
        ("system:kube-scheduler", ["User system:kube-scheduler"]),
        ("system:node-proxier", ["User system:kube-proxy"]),
        ("system:node", []),
        ("system:service-account-issuer-discovery", ["Group system:serviceaccounts"]),
        ("system:controller:certificate-controller", ["ServiceAccount certificate-controller"]),
    ],
)
def test_who_is_bound(name: str, subjects: list[str]) -> None:
    binding = BOUND[name]
    assert [f"{subject.kind} {subject.name}" for subject in binding.subjects] == subjects
    assert (binding.role_ref.kind, binding.role_ref.name) == ("ClusterRole", name)


def test_nobody_may_join_or_approve_before_kubeadm_or_the_operator_says_so() -> None:
    joining = {name for name in ROLES if name.startswith(PREFIX)} | {"system:node-bootstrapper"}
    assert len(joining) == 7
    assert not {binding.role_ref.name for binding in POLICY.cluster_role_bindings} & joining


def test_every_object_is_kept_complete() -> None:
    objects = (*POLICY.every_role, *POLICY.every_binding, *cluster_trust_bundle_policy().every_binding)
    for obj in objects:
        assert obj.metadata.labels["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert obj.metadata.annotations == {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def test_each_binding_has_its_role_and_each_name_is_used_once() -> None:
    roles = {(role.metadata.namespace, role.metadata.name) for role in POLICY.every_role}
    assert len(roles) == len(POLICY.every_role)
    bindings = [(binding.metadata.namespace, binding.metadata.name) for binding in POLICY.every_binding]
    assert len(set(bindings)) == len(bindings)
    for binding in POLICY.every_binding:
        namespace = "" if binding.role_ref.kind == "ClusterRole" else binding.metadata.namespace
        assert (namespace, binding.role_ref.name) in roles


@pytest.mark.parametrize(
    ("name", "selects", "labels"),
    [("admin", "admin", set()), ("edit", "edit", {"admin"}), ("view", "view", {"edit"})],
)
def test_aggregated_roles(name: str, selects: str, labels: set[str]) -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    role = ROLES[name]
    assert role.aggregation_rule is not None
    (selector,) = role.aggregation_rule.cluster_role_selectors
    assert selector.match_labels == {f"{prefix}{selects}": "true"}
    assert {label for label in role.metadata.labels if label.startswith(prefix)} == {f"{prefix}{to}" for to in labels}
    assert ROLES[f"system:aggregate-to-{name}"].metadata.labels[f"{prefix}{selects}"] == "true"


def test_nodes_have_no_right_over_requests_but_to_make_and_read_them() -> None:
    about_requests = [line for line in shown(node_rules()) if CSR in line]
    assert about_requests == [f"create,get,list,watch {CSR}/certificatesigningrequests"]
    assert ROLES["system:node"].rules == list(node_rules())


@pytest.mark.parametrize(
    ("groups", "question", "allowed"),
    [
        (("system:unauthenticated",), ("get", "/livez"), True),
        (("system:unauthenticated",), ("get", "/version"), True),
        (("system:unauthenticated",), ("get", "/api"), False),
        (("system:unauthenticated",), ("get", "/openapi/v2"), False),
        (("system:unauthenticated",), ("get", "/metrics"), False),
        (("system:unauthenticated",), ("post", "/livez"), False),
        (("system:unauthenticated",), ("get", "/livez/etcd"), False),
        (("system:authenticated",), ("get", "/api"), True),
        (("system:authenticated",), ("get", "/apis/certificates.k8s.io/v1"), True),
        (("system:authenticated",), ("get", "/metrics"), False),
        (("system:monitoring",), ("get", "/metrics"), True),
        (("system:monitoring",), ("get", "/livez/etcd"), True),
        (("system:monitoring",), ("get", "/api"), False),
    ],
)
@async_test
async def test_urls_by_group(groups: tuple[str, ...], question: tuple[str, str], allowed: bool) -> None:
    verb, path = question
    authorizer = RBACAuthorizer(rbac_policy(POLICY))
    verdict = await authorizer.authorize(Attributes(UserInfo("somebody", groups=groups), verb, path=path))
    assert (verdict.decision is Decision.ALLOW) is allowed


def test_a_kube_apiserver_finds_nothing_missing() -> None:
    """Started on a store of ours, kube-apiserver 1.36.2 had to add these, and with them a write to each object."""
    controller = {role.metadata.name: shown(role.rules) for role in POLICY.cluster_roles}
    node = controller["system:controller:node-controller"]
    assert {"delete,get,list,patch,update,watch /nodes", "delete,get,list,watch /pods"} <= set(node)
    scheduler = set(controller["system:kube-scheduler"])
    assert {
        "create,delete,get,list,patch,update,watch resource.k8s.io/resourceclaims",
        "patch,update resource.k8s.io/resourceclaims/binding",
    } <= scheduler
    (locking,) = [
        each for each in POLICY.role_bindings if each.metadata.name.endswith("leader-locking-kube-controller-manager")
    ]
    assert [(subject.kind, subject.name) for subject in locking.subjects] == [
        ("User", "system:kube-controller-manager"),
        ("ServiceAccount", "kube-controller-manager"),
        ("ServiceAccount", "leader-election-controller"),
    ]


@pytest.mark.parametrize("name", ["clusterrole-bootstrap-system-node", "clusterrolebinding-bootstrap-cluster-admin"])
def test_what_kubernetes_has_stored_is_ours_word_for_word(name: str) -> None:
    stored = json.loads((VECTORS / f"{name}.json").read_text())["object"]
    objects = {(type(each).__name__, each.metadata.name): each for each in (*POLICY.every_role, *POLICY.every_binding)}
    ours = json.loads(json_codec.encode(objects[stored["kind"], stored["metadata"]["name"]]))
    # It ran with beta APIs, which add rules of their own.
    beta = {"clustertrustbundles", "podcertificaterequests"}
    if "rules" in stored:
        assert ours["rules"] == [each for each in stored["rules"] if not beta & set(each.get("resources", ()))]
    for part in ("subjects", "roleRef"):
        assert ours.get(part) == stored.get(part)
    for part in ("labels", "annotations"):
        assert ours["metadata"][part] == stored["metadata"][part]
