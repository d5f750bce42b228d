"""Parameters of admission policies are for those who may read them anyway."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.testing import Cluster

POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "false", "messageExpression": "string(params.data)"}],
    },
}
BINDING: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {
        "policyName": "p",
        "paramRef": {"name": "s", "namespace": "kube-system", "parameterNotFoundAction": "Deny"},
        "validationActions": ["Deny"],
    },
}


def grant(cluster: Cluster, *rules: dict[str, Any]) -> None:
    """The user ``author`` may write policies and what ``rules`` say."""
    write = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "author"}, "rules": [write, *rules]}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "author"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "author"}],
    }
    cluster.apply(role)
    cluster.apply(binding)


@pytest.mark.parametrize(("manifest", "path"), [(POLICY, "spec.paramKind"), (BINDING, "spec.paramRef")])
def test_who_may_not_read_may_not_refer(manifest: dict[str, Any], path: str) -> None:
    with Cluster() as cluster:
        grant(cluster)
        with pytest.raises(APIStatusError) as refused:
            cluster.as_user("author").create(manifest)
        assert refused.value.code == 422
        assert f"{path}: Forbidden: user author must have" in str(refused.value)


def test_who_may_read_the_kind_may_refer_to_it() -> None:
    with Cluster() as cluster:
        grant(cluster, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})
        cluster.as_user("author").create(POLICY)


def test_a_policy_without_parameters_needs_no_more_rights() -> None:
    with Cluster() as cluster:
        grant(cluster)
        spec = {key: value for key, value in POLICY["spec"].items() if key != "paramKind"}
        spec["validations"] = [{"expression": "true"}]
        cluster.as_user("author").create({**POLICY, "spec": spec})
