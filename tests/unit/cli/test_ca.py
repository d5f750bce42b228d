"""``kubevouch ca rotate``, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.cli.main import run
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing.cluster import Cluster

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("certificateledger",), real_time=True) as cluster:
        assert cluster.kubeconfig.exists()
        yield cluster


def _rotate(cluster: Cluster, *words: str) -> int:
    folder = cluster.folder
    return run(["ca", "rotate", *words, "--cert-dir", str(folder / "pki"), "--kubeconfig-dir", str(folder)])


def test_from_the_start_to_the_end(cluster: Cluster, capsys: Capture) -> None:
    assert _rotate(cluster, "status") == 0
    assert capsys.readouterr().out.splitlines() == [
        "no CA rotation has been started",
        "next: make another CA; kubevouch ca rotate start",
    ]
    assert _rotate(cluster, "start", "--key-algorithm", "ECDSA-P384") == 0
    assert "✓ Distributing   both CAs are published" in capsys.readouterr().out
    assert _rotate(cluster, "status", "-o", "json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["phase"], tree["paused"], tree["obstacles"]) == ("Distributing", False, [])
    assert tree["next"] == {"what": "have the next CA sign", "command": "kubevouch ca rotate start"}
    former, following = tree["certificateAuthorities"]
    assert (former["pin"], former["signs"], following["signs"]) == (cluster.pin, True, False)
    assert _rotate(cluster, "start", "--wait", "--renewal-window", "1h") == 0
    out = capsys.readouterr().out
    assert "✓ Renewing" in out and "✓ all machines have renewed   kubevouch ca rotate finish" in out
    assert _rotate(cluster, "pause") == 0
    assert "✓ Renewing, paused" in capsys.readouterr().out
    assert _rotate(cluster, "status") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("paused: both CAs are trusted") and lines[-1] == "next: go on; kubevouch ca rotate start"
    assert _rotate(cluster, "finish") == 0
    assert "✓ Finished" in capsys.readouterr().out
    assert _rotate(cluster, "status", "-o", "yaml") == 0
    tree = yaml.safe_load(capsys.readouterr().out)
    assert (tree["phase"], tree["renewal"]["windowSeconds"]) == ("Finished", 3600)
    assert tree["certificateAuthorities"][1]["signs"] is True


def test_who_is_in_the_way_is_named(cluster: Cluster, capsys: Capture) -> None:
    for number in range(25):
        cluster.run(cluster.client().create(catalog.NODES, Node(metadata=ObjectMeta(name=f"worker-{number:02}"))))
    assert _rotate(cluster, "start") == 0
    capsys.readouterr()
    assert _rotate(cluster, "start") == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "  … worker-00: has not reported what it trusts"
    assert err[20] == "  … and 5 more; kubevouch ca rotate status -o json lists all"
    assert (
        err[21] == "error: the next CA cannot sign yet: worker-00, worker-01, worker-02 and 22 more would not trust it"
    )
    assert err[22].startswith("hint: they take it over within two hours")
    assert _rotate(cluster, "status") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  machines       0 of 25 are ready for the next step" in lines
    assert lines[-1] == "next: have the next CA sign; once nobody is in the way: kubevouch ca rotate start"
    lost = [word for number in range(1, 25) for word in ("--accept-loss", f"worker-{number:02}")]
    assert _rotate(cluster, "start", *lost) == 1
    assert "sign yet: worker-00 would not trust it" in capsys.readouterr().err
    assert _rotate(cluster, "rollback") == 0
    assert "✓ Withdrawn" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["pause", "rollback", "finish"])
def test_without_a_rotation(cluster: Cluster, capsys: Capture, word: str) -> None:
    assert _rotate(cluster, word) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: no CA rotation is under way",
        "hint: kubevouch ca rotate start begins one",
    ]


@pytest.mark.parametrize(
    "flag", [("--key-algorithm", "DSA"), ("--renewal-window", "-1h"), ("--renewal-window", "soon")]
)
def test_what_cannot_be_meant(cluster: Cluster, capsys: Capture, flag: tuple[str, str]) -> None:
    assert _rotate(cluster, "start", *flag) == 3
    assert capsys.readouterr().err.startswith("error: ")
    assert not (cluster.folder / "pki/ca-rotation").exists()
