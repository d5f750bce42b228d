"""kubectl, old and new, with a kind that it has never heard of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubectl import Kubectl, kubectl_of
from kubevouch.testing import Cluster

DEFINITION = r"""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Image, type: string, jsonPath: .spec.image, priority: 1}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        description: Runs things at times.
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string, description: When it runs.}
              image: {type: string}
              replicas: {type: integer, minimum: 1, default: 1}
            x-kubernetes-validations: [{rule: "self.replicas <= 8", message: too many}]
          status:
            type: object
            properties: {replicas: {type: integer}}
"""
OBJECT = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: my}
spec: {cronSpec: "*/5 * * * *", image: one}
"""


@pytest.fixture(params=["1.20", "1.32", "1.37"])
def kubectl(request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    with Cluster(https=True, real_time=True) as cluster:
        yield kubectl_of(cluster, request.param)


def _out(kubectl: Kubectl, *arguments: str, given: str | None = None) -> str:
    done = kubectl(*arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_people_work_with_a_kind_of_their_own(kubectl: Kubectl) -> None:
    name = "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com"
    assert _out(kubectl, "apply", "-f", "-", given=DEFINITION) == f"{name} created\n"
    _out(kubectl, "wait", "--for=condition=Established", name, "--timeout=30s")
    assert _out(kubectl, "apply", "-f", "-", given=OBJECT) == "crontab.stable.example.com/my created\n"
    assert _out(kubectl, "get", "ct") == "NAME   SPEC\nmy     */5 * * * *\n"
    assert _out(kubectl, "get", "ct", "-o", "wide") == "NAME   SPEC          IMAGE\nmy     */5 * * * *   one\n"
    assert "crontab.stable.example.com/my" in _out(kubectl, "get", "all")
    assert "When it runs." in _out(kubectl, "explain", "crontab.spec")
    _out(kubectl, "scale", "--replicas=3", "ct/my")
    assert _out(kubectl, "get", "ct", "my", "-o", "jsonpath={.spec.replicas}") == "3"
    scale = kubectl("get", "ct", "my", "--subresource=scale")
    if "unknown flag" not in scale.stderr:  # as 1.20 says
        lines = [line.split() for line in scale.stdout.splitlines()]
        assert lines[0] == ["NAME", "DESIRED", "AVAILABLE", "AGE"]
        assert lines[1][:3] == ["my", "3", "0"]
    refused = kubectl("patch", "ct", "my", "--type=merge", "-p", '{"spec":{"replicas":9}}')
    assert refused.stderr == 'The CronTab "my" is invalid: spec: Invalid value: too many\n'
    unknown = kubectl("apply", "-f", "-", given=OBJECT.replace("image", "shade"))
    assert unknown.returncode == 1
    assert 'unknown field "' in unknown.stderr
    changed = OBJECT.replace("one", "two")
    dry = _out(kubectl, "apply", "--dry-run=server", "-f", "-", given=changed)
    assert dry == "crontab.stable.example.com/my configured (server dry run)\n"
    assert _out(kubectl, "apply", "-f", "-", given=changed) == "crontab.stable.example.com/my configured\n"
    _out(kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-", given=changed)
    assert _out(kubectl, "get", "ct", "my", "-o", "jsonpath={.spec.image} {.spec.replicas}") == "two 3"
    _out(kubectl, "delete", "crd", "crontabs.stable.example.com")
    assert "the server" in kubectl("get", "ct").stderr
