"""Parameters of admission policies are for those who may read them anyway."""

from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from decisions import BOB
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.authorization.param_access import ParamAccess
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


class Asked:
    """Allows what it is told to, and remembers what it was asked."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.questions: list[Attributes] = []

    async def authorize(self, attributes: Attributes) -> Verdict:
        self.questions.append(attributes)
        return Verdict(self.decision)


@pytest.mark.parametrize("decision", list(Decision))
@async_test
async def test_what_is_asked(decision: Decision) -> None:
    asked = Asked(decision)
    access, allowed = ParamAccess(asked), decision is Decision.ALLOW
    assert await access.may_read_kind(BOB, "apps", "v1", "things") is allowed
    assert await access.may_read_objects(BOB, "shop", "one") is allowed
    assert await access.may_read_objects(BOB, "", "") is allowed
    assert asked.questions == [
        Attributes(BOB, "get", "apps", "v1", "things", namespace="*", name="*"),
        Attributes(BOB, "get", "*", "*", "*", namespace="shop", name="one"),
        Attributes(BOB, "list", "*", "*", "*", namespace="*", name="*"),
    ]
    masters = UserInfo("root", groups=("system:masters",))
    assert await access.may_read_kind(masters, "", "v1", "secrets")
    assert await access.may_read_objects(masters, "", "")
    assert len(asked.questions) == 3


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
