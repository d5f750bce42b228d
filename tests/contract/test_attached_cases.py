"""Plays every case of ``attached.jsonl`` against our own server over HTTPS: what signers and approvers hear that attach
themselves to a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.http_cases.case_text import Case, Fixtures, read_cases
from contract.http_cases.identities import Identities
from contract.http_cases.player import Player
from contract.http_cases.run import SetupError
from kubevouch.testing import Cluster

VECTORS = Path(__file__).parents[1] / "vectors"
FIXTURES = Fixtures(VECTORS / "fixtures-server")
CASES = read_cases(VECTORS / "attached.jsonl")
AREAS = sorted({case["area"] for case in CASES})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, real_time=True, runtime_config="certificates.k8s.io/v1beta1=true") as cluster:
        yield cluster


async def _problems(cluster: Cluster, cases: list[Case]) -> dict[str, list[str]]:
    """By case, of those that the server does not answer as it should."""
    identities = Identities(cluster.kubeconfig, FIXTURES, ca_key=cluster.folder / "pki" / "ca.key")
    player, found = Player(identities, FIXTURES), dict[str, list[str]]()
    try:
        for case in cases:
            try:
                problems = (await player.play(case)).problems
            except SetupError as err:
                problems = [str(err)]
            if problems:
                found[case["id"]] = problems
    finally:
        await identities.close()
    return found


@pytest.mark.parametrize("area", AREAS)
def test_the_server_answers_as_kubernetes_does(area: str, cluster: Cluster) -> None:
    cases = [case for case in CASES if case["area"] == area]
    assert asyncio.run(_problems(cluster, cases)) == {}


def test_every_case_is_played() -> None:
    assert len(CASES) == 28
