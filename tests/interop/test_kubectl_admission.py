"""Real kubectl with policies and webhook configurations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from kubectl import Kubectl, kubectl_of
from kubevouch.testing import Cluster

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: owned
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [configmaps]
      # Its default: kubectl takes a list without it for another one.
      scope: "*"
  variables:
  - name: owned
    expression: has(object.data) && 'owner' in object.data
  validations:
  - expression: variables.owned
    messageExpression: "object.metadata.name == '' ? 'no owner' : 'no owner of ' + string(object.metadata.name)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: owned-here
spec:
  policyName: owned
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: default
"""
WEBHOOKS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: nowhere
webhooks:
- name: nowhere.example.com
  clientConfig:
    url: https://127.0.0.1:1/mutate
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE]
    resources: [secrets]
  sideEffects: None
  admissionReviewVersions: [v1]
"""

MUTATING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owned}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{metadata: Object.metadata{labels: {"owner": request.userInfo.username.lowerAscii()}}}
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "add", path: "/metadata/annotations",
         value: {"example.com/seen": object.metadata.labels.owner}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owned-here}
spec: {policyName: owned}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        yield cluster


@pytest.fixture(params=peers.KUBECTL_VERSIONS)
def kubectl(cluster: Cluster, request: pytest.FixtureRequest) -> Kubectl:
    return kubectl_of(cluster, request.param)


def test_a_policy_is_applied_and_refuses(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    for verb in ("created", "unchanged"):
        applied = kubectl("apply", "-f", str(file))
        assert applied.returncode == 0, applied.stderr
        assert applied.stdout.count(verb) == 2
    refused = kubectl("create", "configmap", "mine")
    assert refused.returncode == 1
    text = "ValidatingAdmissionPolicy 'owned' with binding 'owned-here' denied request: no owner of mine"
    assert text in refused.stderr
    assert kubectl("create", "configmap", "mine", "--from-literal=owner=jane").returncode == 0
    assert kubectl("delete", "configmap", "mine").returncode == 0
    heading, row = kubectl("get", "validatingadmissionpolicies").stdout.splitlines()
    assert heading.split() == ["NAME", "VALIDATIONS", "PARAMKIND", "AGE"]
    assert row.split()[:3] == ["owned", "1", "<unset>"]
    heading, row = kubectl("get", "validatingadmissionpolicybindings").stdout.splitlines()
    assert heading.split() == ["NAME", "POLICYNAME", "PARAMREF", "AGE"]
    assert row.split()[:3] == ["owned-here", "owned", "<unset>"]
    assert kubectl("delete", "-f", str(file)).returncode == 0
    assert kubectl("create", "configmap", "mine").returncode == 0
    assert kubectl("delete", "configmap", "mine").returncode == 0


def test_a_mutating_policy_is_applied_and_changes(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(MUTATING)
    for verb in ("created", "unchanged"):
        applied = kubectl("apply", "-f", str(file))
        assert applied.returncode == 0, applied.stderr
        assert applied.stdout.count(verb) == 2
    assert kubectl("create", "configmap", "mine").returncode == 0
    path = "-o=jsonpath={.metadata.labels.owner} {.metadata.annotations.example\\.com/seen}"
    owner, seen = kubectl("get", "configmap", "mine", path).stdout.split()
    assert owner == seen
    heading, row = kubectl("get", "mutatingadmissionpolicies").stdout.splitlines()
    assert heading.split() == ["NAME", "MUTATIONS", "PARAMKIND", "AGE"]
    assert row.split()[:3] == ["owned", "2", "<unset>"]
    heading, row = kubectl("get", "mutatingadmissionpolicybindings").stdout.splitlines()
    assert heading.split() == ["NAME", "POLICYNAME", "PARAMREF", "AGE"]
    assert row.split()[:3] == ["owned-here", "owned", "<unset>"]
    explained = kubectl("explain", "mutatingadmissionpolicy.spec.mutations")
    assert "applyConfiguration" in explained.stdout and "patchType" in explained.stdout
    assert kubectl("delete", "-f", str(file)).returncode == 0
    assert kubectl("delete", "configmap", "mine").returncode == 0


def test_a_webhook_is_applied_and_asked(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_text(WEBHOOKS)
    applied = kubectl("apply", "-f", str(file))
    assert applied.returncode == 0, applied.stderr
    refused = kubectl("create", "secret", "generic", "mine")
    assert refused.returncode == 1
    assert 'failed calling webhook "nowhere.example.com": failed to call webhook: Post ' in refused.stderr
    heading, row = kubectl("get", "mutatingwebhookconfigurations").stdout.splitlines()
    assert (heading.split(), row.split()[:2]) == (["NAME", "WEBHOOKS", "AGE"], ["nowhere", "1"])
    patch = '{"webhooks":[{"name":"nowhere.example.com","failurePolicy":"Ignore"}]}'
    patched = kubectl("patch", "mutatingwebhookconfiguration", "nowhere", "-p", patch)
    assert patched.returncode == 0, patched.stderr
    assert kubectl("create", "secret", "generic", "mine").returncode == 0
    assert kubectl("delete", "secret", "mine").returncode == 0
    explained = kubectl("explain", "mutatingwebhookconfiguration.webhooks.rules")
    assert "operations" in explained.stdout and "apiGroups" in explained.stdout
    assert kubectl("delete", "-f", str(file)).returncode == 0
