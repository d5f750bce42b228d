"""Suites of other people: ``kube_cluster``, ``kubeconfig`` and ``kube_namespace``, in a pytest of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from custom_world import definition

SUITE = """
import os
from pathlib import Path

import pytest
from kubernetes import client, config

GROUP = "demo.example.com"
WIDGET = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "same"}, "spec": {}}


@pytest.fixture(scope="module")
def shared(kube_session_cluster):
    kube_session_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}})


@pytest.mark.parametrize("number", range(8))
def test_a_real_client(kubeconfig, kube_namespace, kube_cluster, number):
    assert os.environ["KUBECONFIG"] == str(kubeconfig)
    assert "KUBERNETES_SERVICE_HOST" not in os.environ
    config.load_config()
    widgets = client.CustomObjectsApi()
    made = widgets.create_namespaced_custom_object(GROUP, "v1", kube_namespace, "widgets", WIDGET)
    assert made["spec"]["size"] == 3
    assert kube_cluster.get("widgets", "same", kube_namespace) == made
    assert client.CoreV1Api().read_namespaced_service_account("default", kube_namespace)
    assert [each["metadata"]["name"] for each in kube_cluster.list("widgets")] == ["same"]


@pytest.mark.parametrize("number", range(3))
def test_what_outlives_a_test_is_left_alone(shared, kube_cluster, number):
    assert kube_cluster.get("cm", "shared")
    assert kube_cluster.list("widgets") == []
    kube_cluster.create(WIDGET)
    kube_cluster.delete("cm", "shared")


def test_faults_are_over_1(kube_cluster):
    kube_cluster.faults.error(500, times=None)


def test_faults_are_over_2(kubeconfig):
    config.load_kube_config()
    assert client.CoreV1Api().list_namespace().items


def test_namespaces_are_names(kube_namespace, kube_cluster):
    assert kube_namespace == "test-namespaces-are-names"


@pytest.mark.parametrize("name", ["x" * 80, "Ä_b"])
def test_any_name_will_do(kube_namespace, name):
    assert len(kube_namespace) <= 63


@pytest.mark.kubevouch(https=True)
def test_a_cluster_of_its_own(kube_cluster, kubevouch_cluster):
    assert kubevouch_cluster.url != kube_cluster.url
"""
TESTS = 17


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(folder)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--strict-config", "-p", "no:cacheprovider"]
    finished = subprocess.run(
        [*command, *options, str(folder)], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    left = [each.name for each in temporary.iterdir() if each.name.startswith("kubevouch-")]
    assert left == [], finished.stdout
    return finished


def test_a_suite_needs_no_more_than_two_lines(tmp_path: Path) -> None:
    """In processes side by side, each with a cluster of its own."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nkube_crds = deploy/crds\n")
    (tmp_path / "deploy" / "crds").mkdir(parents=True)
    (tmp_path / "deploy" / "crds" / "widgets.yaml").write_text(json.dumps(definition()))
    (tmp_path / "test_suite.py").write_text(SUITE)
    finished = _run(tmp_path, "-n", "2")
    assert f"{TESTS} passed" in finished.stdout, finished.stdout + finished.stderr


def test_settings_are_overridden(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkube_controllers = garbage-collector-controller\n")
    (tmp_path / "conftest.py").write_text(
        "import datetime, pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def kube_settings():\n"
        "    return {'real_time': False, 'now': datetime.datetime(2031, 5, 6, tzinfo=datetime.timezone.utc)}\n"
    )
    (tmp_path / "test_suite.py").write_text(
        "def test_it(kube_cluster, kube_namespace):\n"
        "    assert kube_cluster.clock.now().year == 2031\n"
        "    assert kube_cluster.list('ServiceAccount', kube_namespace) == []\n"
        "    kube_cluster.clock.advance(400 * 86400)\n"
        "def test_time_is_put_back(kube_cluster):\n"
        "    assert kube_cluster.clock.now().year == 2031\n"
    )
    finished = _run(tmp_path)
    assert "2 passed" in finished.stdout, finished.stdout + finished.stderr


def test_definitions_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkube_crds = nowhere.yaml\n")
    (tmp_path / "test_suite.py").write_text("def test_it(kube_cluster): pass\n")
    finished = _run(tmp_path)
    assert "nowhere.yaml', expected a file or a folder of definitions" in finished.stdout
    assert "1 error" in finished.stdout
