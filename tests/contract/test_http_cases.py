"""Plays every case of ``server.jsonl`` against our own server over HTTPS, each as a test of its own."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from contract.http_cases.case_text import Case, Fixtures, is_http, read_cases
from contract.http_cases.identities import Identities
from contract.http_cases.player import STATES, Player
from contract.http_cases.run import SetupError
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.abac import ABACAuthorizer, parse_policy_file
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.testing import Cluster

VECTORS = Path(__file__).parents[1] / "vectors"
FIXTURES = Fixtures(VECTORS / "fixtures-server")

CASES = read_cases(VECTORS / "server.jsonl")
KNOWN = tomllib.loads((Path(__file__).parent / "http_cases" / "known_failures.toml").read_text())


def _parameters(cases: list[Case]) -> list[Any]:
    assert cases
    return [pytest.param(case, id=case["id"], marks=_marks(case["id"])) for case in cases]


def _marks(case_id: str) -> list[pytest.MarkDecorator]:
    if case_id not in KNOWN["cases"]:
        return []
    reason = KNOWN["reasons"][KNOWN["cases"][case_id]]
    return [pytest.mark.xfail(strict=True, raises=(AssertionError, SetupError), reason=reason)]


HTTP = _parameters([case for case in CASES if is_http(case) and not case["given"].get("state")])
STATEFUL = _parameters([case for case in CASES if is_http(case) and case["given"].get("state")])
ABAC = _parameters([case for case in CASES if not is_http(case)])


class Stage:
    """A running server and a player that knows its CA."""

    def __init__(self, cluster: Cluster, runner: asyncio.Runner, states: tuple[str, ...] = ()) -> None:
        self._runner = runner
        ca_key = cluster.folder / "pki" / "ca.key"
        self._identities = Identities(cluster.kubeconfig, FIXTURES, ca_key=ca_key)
        self._player = Player(self._identities, FIXTURES, states)

    def problems(self, case: Case) -> list[str]:
        return self._runner.run(self._player.play(case)).problems

    def close(self) -> None:
        self._runner.run(self._identities.close())


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A server as it starts for the first time."""
    with Cluster(https=True, real_time=True) as cluster, asyncio.Runner() as runner:
        stage = Stage(cluster, runner)
        yield stage
        stage.close()


@pytest.fixture(scope="module")
def stage_with_a_past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server on the file that an earlier one left, compacted up to now."""
    store = f"sqlite:{tmp_path_factory.mktemp('store')}/kubevouch.db"
    with Cluster(real_time=True, store=store) as earlier:
        earlier.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-an-earlier-life"}})
    with Cluster(https=True, real_time=True, store=store) as cluster, asyncio.Runner() as runner:
        cluster.compact()
        stage = Stage(cluster, runner, STATES)
        yield stage
        stage.close()


@pytest.mark.parametrize("case", HTTP)
def test_the_server_answers_as_kubernetes_does(case: Case, stage: Stage) -> None:
    assert stage.problems(case) == []


@pytest.mark.parametrize("case", STATEFUL)
def test_a_server_with_a_past_answers_as_kubernetes_does(case: Case, stage_with_a_past: Stage) -> None:
    assert stage_with_a_past.problems(case) == []


@pytest.mark.parametrize("case", ABAC)
@async_test
async def test_an_abac_policy_decides_as_kubernetes_does(case: Case) -> None:
    given, asked = case["given"], case["when"]["authorize"]
    policies = parse_policy_file("policy.jsonl", json.dumps(given["policy_line"]).encode())
    user = given["user"]
    attributes = Attributes(
        UserInfo(user["name"], user["uid"], tuple(user["groups"])),
        asked["verb"],
        group=asked["apiGroup"],
        resource=asked["resource"],
        namespace=asked["namespace"],
    )
    verdict = await ABACAuthorizer(policies).authorize(attributes)
    assert (verdict.decision is Decision.ALLOW) == case["then"]["allowed"]


def test_every_case_is_played() -> None:
    assert len(HTTP) + len(STATEFUL) + len(ABAC) == len(CASES) == 415


def test_every_known_failure_is_a_case() -> None:
    assert set(KNOWN["cases"]) <= {case["id"] for case in CASES}
    assert set(KNOWN["cases"].values()) == set(KNOWN["reasons"])
