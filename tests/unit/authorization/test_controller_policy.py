from __future__ import annotations

import itertools

import pytest

from decisions import rbac_policy
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.controller_policy import (
    CONTROLLERS,
    kubernetes_controller_policy,
    kubevouch_controller_policy,
)
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.policy import Policy
from kubevouch.controllers import catalog

OWN = rbac_policy(kubevouch_controller_policy())
APPROVING = "certificatesigningrequest-approving-controller"
SIGNING = "certificatesigningrequest-signing-controller"
CLEANER = "certificatesigningrequest-cleaner-controller"
PODS_SIGNING = "podcertificaterequest-signing-controller"
COLLECTOR = "garbage-collector-controller"
CSR = ("certificates.k8s.io", "v1", "certificatesigningrequests")
SIGNERS = ("certificates.k8s.io", "*", "signers", "", "")


def may(controller: str, verb: str, *question: str) -> bool:
    user = UserInfo(f"system:serviceaccount:kube-system:{controller}")
    return OWN.decide(Attributes(user, verb, *question)).decision is Decision.ALLOW


@pytest.mark.parametrize("signer", ["kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "x"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_nobody_both_approves_and_signs(controller: str, signer: str) -> None:
    name = f"kubernetes.io/{signer}"
    # Of any name: policies may be about any signer, that of a CertificateSigner is not known before, and no key of a CA
    # comes with the right.
    assert may(controller, "approve", *SIGNERS, name) is (controller == APPROVING)
    assert may(controller, "sign", *SIGNERS, name) is (controller in (SIGNING, PODS_SIGNING))
    assert may(controller, "update", *CSR, "status", "", "any") is (controller == SIGNING)
    assert not (
        may(controller, "update", *CSR, "approval", "", "any") and may(controller, "update", *CSR, "status", "", "any")
    )


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_only_two_delete_and_nobody_creates_requests(controller: str) -> None:
    assert may(controller, "delete", *CSR, "", "", "any") is (controller in (CLEANER, COLLECTOR))
    assert not may(controller, "create", *CSR)


@pytest.mark.parametrize("verb", ["update", "patch"])
@pytest.mark.parametrize("subresource", ["approval", "status"])
def test_the_collector_touches_no_subresource(verb: str, subresource: str) -> None:
    assert may(COLLECTOR, "patch", *CSR, "", "", "any")
    assert not may(COLLECTOR, verb, *CSR, subresource, "", "any")


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("namespace", ["", "default", "kube-system"])
def test_secrets_are_for_those_that_look_after_tokens_or_owners(controller: str, namespace: str) -> None:
    writers = ("token-uses-controller", "token-rotation-controller")
    keepers = ("bootstrap-signer-controller", "token-cleaner-controller", *writers)
    reads = controller in keepers and namespace == "kube-system"
    assert may(controller, "list", "", "v1", "secrets", "", namespace) is (reads or controller == COLLECTOR)
    deletes = (controller == "token-cleaner-controller" and namespace == "kube-system") or controller == COLLECTOR
    assert may(controller, "delete", "", "v1", "secrets", "", namespace, "bootstrap-token-abcdef") is deletes
    writes = controller in writers and namespace == "kube-system"
    assert may(controller, "update", "", "v1", "secrets", "", namespace, "bootstrap-token-abcdef") is writes
    makes = controller == "token-rotation-controller" and namespace == "kube-system"
    assert may(controller, "create", "", "v1", "secrets", "", namespace) is makes


@pytest.mark.parametrize(("controller", "lease"), list(itertools.product(CONTROLLERS, CONTROLLERS)))
def test_each_holds_its_own_lease(controller: str, lease: str) -> None:
    where = ("coordination.k8s.io", "v1", "leases", "")
    assert may(controller, "update", *where, "kube-system", lease) is (controller == lease)
    assert not may(controller, "update", *where, "kube-node-lease", lease)


def test_only_the_aggregation_controller_escalates() -> None:
    question = ("escalate", "rbac.authorization.k8s.io", "v1", "clusterroles", "", "", "view")
    kubernetes = rbac_policy(kubernetes_controller_policy())
    user = UserInfo("system:serviceaccount:kube-system:clusterrole-aggregation-controller")
    assert kubernetes.decide(Attributes(user, *question)).decision is Decision.ALLOW
    for controller in CONTROLLERS:
        assert not may(controller, *question)


@pytest.mark.parametrize("policy", [kubernetes_controller_policy(), kubevouch_controller_policy()])
def test_every_subject_is_a_service_account_of_kube_system(policy: Policy) -> None:
    for binding in policy.every_binding:
        (subject,) = binding.subjects
        assert (subject.kind, subject.namespace) == ("ServiceAccount", "kube-system")


@pytest.mark.parametrize("policy", [kubernetes_controller_policy(), kubevouch_controller_policy()])
def test_no_rule_is_for_everything(policy: Policy) -> None:
    for role in policy.every_role:
        for each in role.rules or ():
            assert "*" not in (each.verbs or ())
            assert not each.non_resource_urls
            if "*" in each.resources or "*" in each.api_groups:
                # Kubernetes' own, which delete or count whatever there is.
                assert role.metadata.name in (
                    "system:controller:resourcequota-controller",
                    "system:controller:namespace-controller",
                    "system:controller:generic-garbage-collector",
                )


@pytest.mark.parametrize("entry", catalog.CONTROLLERS, ids=lambda entry: entry.name)
def test_every_controller_may_hold_its_own_lease(entry: catalog.Entry) -> None:
    lease = ("coordination.k8s.io", "v1", "leases", "", "kube-system")
    assert may(entry.name, "create", *lease)
    assert may(entry.name, "get", *lease, entry.name)
    assert may(entry.name, "update", *lease, entry.name)
    assert not may(entry.name, "update", *lease, "another")
