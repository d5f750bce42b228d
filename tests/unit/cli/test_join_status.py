"""``kubevouch join status``, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from join_requests import ask
from kubevouch.cli.main import run
from kubevouch.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        yield cluster


def test_a_machine_that_has_come_and_one_that_has_not(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    token_id = cluster.token()[:6]
    cluster.run(ask(cluster, token_id))
    where = ["--kubeconfig", str(cluster.kubeconfig)]
    assert run(["join", "status", "worker-1", *where]) == 0
    shown = capsys.readouterr().out
    assert "✓ certificate issued" in shown
    assert f"csr-1 of system:bootstrap:{token_id}" in shown
    assert run(["join-status", "worker-9", "-o", "json", *where]) == 1
    tree = json.loads(capsys.readouterr().out)
    assert (tree["progress"], tree["stuck"]) == ("nothing seen", True)


@pytest.mark.parametrize("words", [["join", "status"], ["join-status"], ["join", "phase"], ["join-phase"]])
def test_two_words_to_whoever_types_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    spoken = " ".join(words).replace("-", " ")
    assert run([*words, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: kubevouch {spoken} ")
    assert run(["--help"]) == 0
    assert f"  {spoken} " in capsys.readouterr().out
    assert run([f"{words[0].partition('-')[0]}-{spoken.partition(' ')[2]}x"]) == 3
    assert f"did you mean {spoken}" in capsys.readouterr().err
