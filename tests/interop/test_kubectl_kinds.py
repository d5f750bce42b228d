"""Real kubectl on kinds that are always empty, and through the life of a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from kubectl import Kubectl, kubectl_of
from kubevouch.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, controllers=("*",)) as cluster:
        yield cluster


@pytest.fixture(params=peers.KUBECTL_VERSIONS)
def kubectl(cluster: Cluster, request: pytest.FixtureRequest) -> Kubectl:
    return kubectl_of(cluster, request.param)


def test_there_are_no_workloads(kubectl: Kubectl) -> None:
    listed = kubectl("get", "pods,deployments,storageclasses", "-A")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "No resources found\n")
    everything = kubectl("get", "all", "-o", "name")
    assert (everything.returncode, everything.stdout, everything.stderr) == (0, "service/kubernetes\n", "")
    refused = kubectl("delete", "service", "kubernetes")
    assert refused.returncode == 1 and "(MethodNotAllowed)" in refused.stderr


def test_a_pod_is_refused_with_the_reason(kubectl: Kubectl) -> None:
    refused = kubectl("run", "web", "--image=nginx")
    assert refused.returncode == 1
    assert refused.stderr == (
        'Error from server (MethodNotAllowed): create is not supported on resources of kind "pods": '
        "kubevouch runs no workloads\n"
    )


def test_a_namespace_comes_with_its_objects_and_goes_with_them(cluster: Cluster, kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "team").returncode == 0
    cluster.settle()
    names = kubectl("get", "serviceaccounts,configmaps", "-n", "team", "-o", "name").stdout.split()
    assert names == ["serviceaccount/default", "configmap/kube-root-ca.crt"]
    assert kubectl("get", "namespace", "team", "-o", "jsonpath={.spec.finalizers}").stdout == '["kubernetes"]'
    assert kubectl("create", "configmap", "mine", "-n", "team").returncode == 0
    gone = kubectl("delete", "namespace", "team", "--timeout=200s")
    assert (gone.returncode, gone.stdout) == (0, 'namespace "team" deleted\n'), gone.stderr
    assert "NotFound" in kubectl("get", "namespace", "team").stderr


def test_a_review_is_created(kubectl: Kubectl, tmp_path: Path) -> None:
    """Whether it may check the fields of what cannot be patched, kubectl 1.25 and later ask the definitions."""
    manifest = tmp_path / "review.yaml"
    manifest.write_text("apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {token: nobody}\n")
    reviewed = kubectl("create", "-f", str(manifest), "-o", "jsonpath={.status.error}")
    assert (reviewed.returncode, reviewed.stdout) == (0, "invalid bearer token"), reviewed.stderr
    listed = kubectl("get", "crd", "-o", "name")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert all(line.endswith(".kubevouch.io") for line in listed.stdout.splitlines())
