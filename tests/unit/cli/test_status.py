"""``kubevouch status``: one screen, and exit codes by how soon somebody has to do something."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from kubevouch.api import catalog
from kubevouch.cli.main import run
from kubevouch.cli.status import EXIT_CODES
from kubevouch.doctor.status import Severity
from kubevouch.testing.cluster import Cluster

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        yield cluster


def test_all_that_there_is_on_one_screen(cluster: Cluster, capsys: Captured) -> None:
    cluster.token()
    cluster.settle()
    there = ["--kubeconfig", str(cluster.kubeconfig)]
    assert run(["status", *there]) == 0
    shown = capsys.readouterr().out
    labels = [line.split()[0] for line in shown.splitlines()]
    assert labels == ["server", "controllers", "machines", "waiting", "tokens", "ends", "ends", "ends", "✓"]
    assert " ready\n" in shown and "0 undecided requests" in shown and "1 that holds" in shown
    assert "next token in 23h" in shown and "CA kubernetes in 36" in shown
    assert run(["status", *there, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["severity"], tree["server"]["ready"], tree["nodes"]) == ("well", True, {"total": 0, "ready": 0})
    assert "certificatesigningrequest-signing-controller" in {each["name"] for each in tree["controllers"]}
    assert set(tree["ends"]) == {"next token", "CA kubernetes", "this kubeconfig (kubernetes-super-admin)"}
    # Somebody removes what machines join by.
    cluster.run(cluster.client().delete(catalog.CONFIG_MAPS, "cluster-info", "kube-public"))
    assert run(["status", *there]) == 2
    shown = capsys.readouterr().out
    assert "✗ cluster-info-missing" in shown and "kubevouch doctor cluster says what to do" in shown


def test_a_server_that_is_gone(capsys: Captured) -> None:
    with Cluster(https=True, real_time=True) as cluster:
        kubeconfig = cluster.kubeconfig.read_text()
        folder = cluster.folder.parent
        path = folder / "gone.conf"
        path.write_text(kubeconfig)
        path.chmod(0o600)
    try:
        assert run(["status", "--kubeconfig", str(path)]) == 4
        assert "✗ port-refused" in capsys.readouterr().out
    finally:
        path.unlink()


def test_every_severity_has_its_exit_code() -> None:
    assert set(EXIT_CODES) == {each.name for each in Severity}
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
