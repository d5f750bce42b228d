"""Definitions that other projects ship, and kubectl of three ages."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from kubectl import Kubectl, kubectl_of
from kubevouch.testing import Cluster

DASK = Path(__file__).parents[1] / "vectors" / "crds" / "dask"
OBJECT = DASK / "object.yaml"


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, crds=[DASK / "definitions"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    before = shared.snapshot()
    yield shared
    shared.restore(before)


@pytest.mark.parametrize("version", [each for each in peers.KUBECTL_VERSIONS if each in ("1.37", "1.32", "1.20")])
def test_kubectl_works_with_a_shipped_definition(cluster: Cluster, version: str) -> None:
    kubectl = kubectl_of(cluster, version, PATH=os.defpath)  # for diff
    _explained_and_refused(kubectl)
    text = OBJECT.read_text()
    assert (
        _done(kubectl("apply", "-f", str(OBJECT))) == "daskworkergroup.kubernetes.dask.org/simple-additional created\n"
    )
    assert _done(kubectl("apply", "-f", str(OBJECT))).endswith("simple-additional unchanged\n")
    header, row = _done(kubectl("get", "daskworkers", "-o", "wide")).splitlines()
    assert (header.split(), row.split()[:2]) == (["NAME", "WORKERS", "AGE"], ["simple-additional", "1"])
    more = text.replace("replicas: 1", "replicas: 5")
    differing = kubectl("diff", "-f", "-", given=more)
    assert (differing.returncode, "+    replicas: 5" in differing.stdout) == (1, True), differing.stderr
    group = "daskworkergroup/simple-additional"
    assert _done(kubectl("scale", group, "--replicas=4")).endswith("simple-additional scaled\n")
    assert _done(kubectl("get", group, "-o", "jsonpath={.spec.worker.replicas}")) == "4"
    forced = ("--server-side", "--force-conflicts", "-f", "-")
    assert _done(kubectl("apply", *forced, given=more)).endswith("serverside-applied\n")
    assert cluster.get("daskworkers", "simple-additional")["spec"]["worker"]["replicas"] == 5
    if version != "1.20":  # which has neither
        assert kubectl("diff", *forced, given=text).returncode == 1
        _done(kubectl("wait", group, "--for=jsonpath={.spec.worker.replicas}=5", "--timeout=5s"))
    waited = kubectl("wait", "crd/daskworkergroups.kubernetes.dask.org", "--for=condition=Established", "--timeout=5s")
    assert waited.returncode == 0, waited.stderr
    assert _done(kubectl("delete", group)).endswith("deleted\n") or version != "1.20"


def _explained_and_refused(kubectl: Kubectl) -> None:
    explained = _done(kubectl("explain", "daskworkergroups.spec.worker.spec.containers.image"))
    assert "image" in explained and "string" in explained
    missing = json.dumps(
        {
            "apiVersion": "kubernetes.dask.org/v1",
            "kind": "DaskWorkerGroup",
            "metadata": {"name": "w"},
            "spec": {"cluster": 1},
        }
    )
    refused = kubectl("create", "--validate=false", "-f", "-", given=missing)
    assert refused.returncode == 1
    assert (
        'spec.cluster: Invalid value: "integer": spec.cluster in body must be of type string: "integer"'
        in refused.stderr
    )
    assert "spec.worker: Required value" in refused.stderr


def _done(finished: subprocess.CompletedProcess[str]) -> str:
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
