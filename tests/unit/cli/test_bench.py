"""``kubevouch bench join``: machines that join a real server, and what is left of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubevouch.api import catalog
from kubevouch.cli.main import run
from kubevouch.phases.join_bench import LABEL
from kubevouch.testing.cluster import Cluster

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        yield cluster


def bench(cluster: Cluster, *more: str) -> int:
    return run(["bench", "join", "--kubeconfig", str(cluster.kubeconfig), *more])


def requests_of(cluster: Cluster) -> list[str]:
    found = cluster.run(cluster.client().list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items
    return sorted(each.metadata.name for each in found if LABEL in each.metadata.labels)


def tokens_of(cluster: Cluster) -> list[str]:
    secrets = cluster.run(cluster.client().list(catalog.SECRETS, "kube-system")).items
    return [each.metadata.name for each in secrets if each.data.get("description", b"").startswith(b"kubevouch bench")]


def test_every_machine_gets_its_own_certificate_and_nothing_is_left(
    cluster: Cluster, capsys: Captured, tmp_path: Path
) -> None:
    files = ["--csv", str(tmp_path / "run.csv"), "--svg", str(tmp_path / "run.svg")]
    assert bench(cluster, "--nodes", "5", "--concurrency", "2", *files) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("5 of 5 machines joined in ")
    assert [line.split("  ")[0] for line in said[2:6]] == [
        "connection, request", "until its certificate", "one join", "get nodes meanwhile",
    ]  # fmt: skip
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    assert len({row["machine"] for row in rows}) == 5 and not any(row["refused"] for row in rows)
    assert (tmp_path / "run.svg").read_text().startswith("<svg ")
    assert (requests_of(cluster), tokens_of(cluster)) == ([], [])


def test_requests_are_kept_when_that_is_asked_for(cluster: Cluster, capsys: Captured) -> None:
    assert bench(cluster, "--nodes", "2", "--keep", "-o", "json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["joined"], tree["refused"]) == (2, [])
    assert requests_of(cluster) == [f"{tree['run']}-0", f"{tree['run']}-1"]
    issued = cluster.run(cluster.client().get(catalog.CERTIFICATE_SIGNING_REQUESTS, f"{tree['run']}-0"))
    assert issued.spec.username.startswith("system:bootstrap:") and issued.status.certificate


def test_machines_that_nobody_approves_are_told_and_fail_the_run(capsys: Captured) -> None:
    with Cluster(https=True, controllers=("*", "-csrapproving"), real_time=True) as cluster:
        assert bench(cluster, "--nodes", "3", "--timeout", "100ms") == 1
        assert (requests_of(cluster), tokens_of(cluster)) == ([], [])
    said = capsys.readouterr()
    assert said.out.startswith("0 of 3 machines joined")
    assert "3 without a certificate: timed out after 0 s waiting for the certificate of request NAME" in said.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--csv", "/nowhere/x.csv"], "got /nowhere/x.csv, expected a file in a folder that is there"),
        (["--timeout", "0"], "got --timeout 0, expected a duration such as 5m"),
    ],
)
def test_bad_input_makes_nothing(cluster: Cluster, capsys: Captured, arguments: list[str], told: str) -> None:
    assert bench(cluster, *arguments) == 3
    assert told in capsys.readouterr().err
    assert tokens_of(cluster) == []
