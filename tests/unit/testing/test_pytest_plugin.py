"""The plug-in costs a test run nothing until a test asks for the fixture, and gives each its own cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kubevouch.testing import Cluster


def test_loading_it_loads_nothing_of_the_server() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import kubevouch.testing.pytest_plugin; "
        "print(sorted(set(sys.modules) - before - {'importlib'}))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert eval(loaded) == ["kubevouch", "kubevouch.testing", "kubevouch.testing.pytest_plugin"]


def test_it_is_registered(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.pluginmanager.get_plugin("kubevouch") is not None


def test_a_test_gets_a_running_cluster(kubevouch_cluster: Cluster) -> None:
    assert repr(kubevouch_cluster) == "<Cluster in process>"


@pytest.mark.kubevouch(https=True)
class TestMarkers:
    """The marker nearest to the test counts; the others fill in."""

    def test_of_a_class(self, kubevouch_cluster: Cluster) -> None:
        assert kubevouch_cluster.kubeconfig.exists()

    @pytest.mark.kubevouch(https=False, controllers=("root-ca-certificate-publisher-controller",))
    def test_of_a_function(self, kubevouch_cluster: Cluster) -> None:
        assert repr(kubevouch_cluster) == "<Cluster in process>"
        kubevouch_cluster.wait_for("cm", "kube-root-ca.crt")
