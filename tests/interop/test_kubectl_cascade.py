"""Real kubectl deletes owners: in the background, in the foreground, and leaving orphans."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

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
    kubectl = kubectl_of(cluster, request.param)

    def run(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        done = kubectl(*arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done

    return run


def _family(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "configmap", name)
    uid = kubectl("get", "configmap", name, "-o", "jsonpath={.metadata.uid}").stdout
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": True}
    metadata = {"name": f"{name}-child", "ownerReferences": [reference]}
    child = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    kubectl("create", "-f", "-", given=json.dumps(child))


@pytest.mark.parametrize("policy", ["background", "foreground", "orphan"])
def test_cascade(cluster: Cluster, kubectl: Kubectl, policy: str) -> None:
    _family(kubectl, policy)
    deleted = kubectl("delete", "configmap", policy, f"--cascade={policy}", "--timeout=200s")
    assert deleted.stdout.startswith(f'configmap "{policy}" deleted')
    cluster.settle()
    assert policy not in kubectl("get", "configmaps", "-o", "name").stdout.split("configmap/")
    children = kubectl("get", "secrets", "-o", "name").stdout.split()
    assert children == ([f"secret/{policy}-child"] if policy == "orphan" else [])
    if policy == "orphan":
        owners = kubectl("get", "secret", f"{policy}-child", "-o", "jsonpath={.metadata.ownerReferences}").stdout
        assert owners == ""
        kubectl("delete", "secret", f"{policy}-child")
