"""The pytest plug-in: fixtures that give tests a real, truthful API server.

pytest loads it through the entry point ``pytest11``; the server is imported when a test asks for a fixture.

    def test_it(kube_cluster, kubeconfig, kube_namespace):
        ...  # any client library, kubectl, an operator

``kube_cluster``, ``kubeconfig`` and ``kube_namespace`` share one cluster a process, which is put back after each test;
``kubevouch_cluster`` is one of a test's own:

    @pytest.mark.kubevouch(https=True, controllers=("*",))
    def test_that(kubevouch_cluster): ...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kubevouch.testing import Cluster

# Where the official clients keep what they read of KUBECONFIG when they were imported.
_LOCATION = "KUBE_CONFIG_DEFAULT_LOCATION"
_OFFICIAL = ("kubernetes", "kubernetes_asyncio")
_MAX_NAMESPACE = 63


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kube_crds", "files and folders of CustomResourceDefinitions that kube_cluster serves", type="paths")
    parser.addini("kube_controllers", "the controllers that run in kube_cluster", type="args", default=["*"])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubevouch(**settings): how kubevouch.testing.Cluster is to be made.")


@pytest.fixture
def kubevouch_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A ``kubevouch.testing.Cluster``, running; the marker ``kubevouch`` gives it arguments."""
    from kubevouch.testing import Cluster

    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kubevouch"))):
        settings.update(marker.kwargs)
    with Cluster(**settings) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kube_settings() -> dict[str, Any]:
    """What ``kube_cluster`` is made with besides the ini options: arguments of ``Cluster``. For suites to override."""
    return {}


@pytest.fixture(scope="session")
def kube_session_cluster(pytestconfig: pytest.Config, kube_settings: dict[str, Any]) -> Iterator[Cluster]:
    """The cluster that all tests of this process share, for fixtures that live longer than a test."""
    from kubevouch.testing import Cluster

    settings = {
        "https": True,
        "real_time": True,
        "crds": pytestconfig.getini("kube_crds"),
        "controllers": tuple(pytestconfig.getini("kube_controllers")),
        **kube_settings,
    }
    with Cluster(**settings) as cluster:
        yield cluster


@pytest.fixture
def kube_cluster(kube_session_cluster: Cluster) -> Iterator[Cluster]:
    """A Kubernetes API server; what the test does to it is undone afterwards, and its faults are over."""
    before = kube_session_cluster.snapshot()
    yield kube_session_cluster
    kube_session_cluster.restore(before)


@pytest.fixture
def kubeconfig(kube_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an administrator's kubeconfig, which is also the default of every client during the test.

    A test must never reach the cluster in which it runs, or to which its author is logged in.
    """
    path = kube_cluster.kubeconfig
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for library in _OFFICIAL:
        for module in (f"{library}.config", f"{library}.config.kube_config"):
            if hasattr(sys.modules.get(module), _LOCATION):
                monkeypatch.setattr(sys.modules[module], _LOCATION, str(path))
    return path


@pytest.fixture
def kube_namespace(kube_cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a namespace that is the test's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    name = words[:_MAX_NAMESPACE].rstrip("-") or "test"
    kube_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    kube_cluster.settle()  # its service account is there
    return name
