"""``kubevouch csr approve --safe``: what is justified is approved, of everything else it is told why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from join_requests import ask
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, NODES
from kubevouch.cli.main import run
from kubevouch.machinery.scheme import Resource
from kubevouch.testing.cluster import Cluster
from serving_requests import asks, node_with

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Iterator[Cluster]:
    yield server
    client = server.client()
    resources: tuple[Resource[Any], ...] = (CERTIFICATE_SIGNING_REQUESTS, NODES)
    for resource in resources:
        for each in server.run(client.list(resource)).items:
            server.run(client.delete(resource, each.metadata.name))


def safe(cluster: Cluster, *arguments: str) -> int:
    return run(["csr", "approve", "--safe", *arguments, "--kubeconfig", str(cluster.kubeconfig)])


def post(cluster: Cluster, name: str, *dns: str, ips: tuple[str, ...] = ("10.0.0.9",)) -> None:
    node = cluster.client("system:node:n1", ("system:nodes",))
    cluster.run(node.create(CERTIFICATE_SIGNING_REQUESTS, asks(name, dns=dns or ("n1",), ips=ips)))


def conditions(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    csr = cluster.run(cluster.client().get(CERTIFICATE_SIGNING_REQUESTS, name))
    return [(each.type, each.message) for each in csr.status.conditions]


def test_all_that_nobody_has_decided(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(cluster.client().create(NODES, node_with()))
    cluster.run(ask(cluster, "abcdef", "join", "n2"))
    post(cluster, "good")
    post(cluster, "hostile", "n1", "kubernetes.default.svc")
    post(cluster, "unknown", "n1", "x.example.com")
    assert safe(cluster, "--dry-run") == 0
    assert "good approved (dry run): " in capsys.readouterr().out
    assert conditions(cluster, "good") == []

    assert safe(cluster) == 0
    told = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert {name.rpartition("/")[2]: text.partition(":")[0] for name, text in told.items()} == {
        "good": "approved", "hostile": "left undecided", "join": "approved", "unknown": "left undecided"
    }  # fmt: skip
    (decision,) = conditions(cluster, "good")
    assert decision[0] == "Approved"
    assert "kubevouch csr approve --safe" in decision[1]
    assert "no source knows it" in told["certificatesigningrequest.certificates.k8s.io/unknown"]
    assert conditions(cluster, "hostile") == conditions(cluster, "unknown") == []

    assert safe(cluster, "hostile") == 1
    assert "error: not justified: hostile" in capsys.readouterr().err
    assert safe(cluster, "good") != 0
    assert "good is Approved already" in capsys.readouterr().err


def test_a_document_for_scripts(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(cluster.client().create(NODES, node_with()))
    post(cluster, "good")
    assert safe(cluster, "-o", "json", "--dry-run") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["justified"], found["approved"], found["dryRun"]) == ("good", True, False, True)
    assert found["request"]["dnsNames"] == ["n1"]
    assert found["verdict"]["steps"][-1] == {"rule": "san.ip 10.0.0.9", "result": "met", "by": "node-addresses"}


def test_the_api_server_that_was_asked_is_one(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(cluster.client().create(NODES, node_with(addresses=[("InternalIP", "10.96.0.1")])))
    post(cluster, "good", ips=("10.96.0.1",))
    assert safe(cluster) == 0
    assert "an API server is reached there" in capsys.readouterr().out


def test_declared_networks_count(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(cluster.client().create(NODES, node_with()))
    post(cluster, "good")
    assert safe(cluster, "--kubelet-serving-networks", "10.1.0.0/16") == 0
    assert "it is in none of the declared networks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "got no NAME"),
        (("a", "--dry-run"), "go with --safe"),
        (("a", "-o", "json"), "go with --safe"),
        (("--safe", "--kubelet-serving-networks", "10.0.0.1/8"), "expected ranges such as 10.0.0.0/16"),
        (("--safe", "--kubelet-serving-domains", "*.example.com"), "expected a domain"),
    ],
)
def test_what_cannot_be_meant(arguments: tuple[str, ...], told: str, capsys: Captured) -> None:
    assert run(["csr", "approve", *arguments]) == 3
    assert told in capsys.readouterr().err


def test_show_says_what_is_not_justified(cluster: Cluster, capsys: Captured) -> None:
    cluster.run(cluster.client().create(NODES, node_with()))
    post(cluster, "unknown", "n1", "x.example.com")
    assert run(["csr", "show", "unknown", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    assert "not justified: san.dns x.example.com: no source knows it" in " ".join(capsys.readouterr().out.split())
