"""Replays every request of ``api_surface.jsonl`` and expects the recorded status and response type.

What is answered differently on purpose stands in ``api_surface/differences.toml``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.api_surface.differences import Difference, as_markdown, differences
from contract.api_surface.replay import Replay
from contract.api_surface.rows import Row, read
from contract.http_cases.case_text import Fixtures
from contract.http_cases.identities import Identities
from kubevouch.testing import Cluster

VECTORS = Path(__file__).parents[1] / "vectors"
COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"

ROWS = read(VECTORS / "api_surface.jsonl")
DIFFERENCES = differences()
ALIKE = [row for row in ROWS if not any(each.covers(row) for each in DIFFERENCES)]
UNLIKE = [(row, each) for row in ROWS for each in DIFFERENCES if each.covers(row)]


class Stage:
    def __init__(self, cluster: Cluster, runner: asyncio.Runner) -> None:
        self._runner = runner
        fixtures = Fixtures(VECTORS / "fixtures-server")
        self._identities = Identities(cluster.kubeconfig, fixtures, ca_key=cluster.folder / "pki" / "ca.key")
        self._replay = Replay(self._identities, cluster.token())
        runner.run(self._replay.prepare())

    def answer(self, row: Row) -> tuple[int, str]:
        return self._runner.run(self._replay.answer(row))

    def close(self) -> None:
        self._runner.run(self._identities.close())


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Cluster(https=True, real_time=True, controllers=("namespace",)) as cluster, asyncio.Runner() as runner:
        stage = Stage(cluster, runner)
        yield stage
        stage.close()


@pytest.mark.parametrize("row", ALIKE, ids=str)
def test_a_recorded_request_is_answered_as_recorded(row: Row, stage: Stage) -> None:
    assert stage.answer(row) == (row.status, row.answer)


@pytest.mark.parametrize(("row", "difference"), UNLIKE, ids=str)
def test_a_difference_is_what_the_list_says(row: Row, difference: Difference, stage: Stage) -> None:
    status, _ = stage.answer(row)
    assert status == difference.status != row.status


def test_every_row_is_replayed() -> None:
    assert len(ALIKE) + len(UNLIKE) == len(ROWS) > 900
    assert all(any(each.covers(row) for row in ROWS) for each in DIFFERENCES)


def test_the_documentation_lists_the_differences() -> None:
    assert as_markdown(DIFFERENCES) in COMPATIBILITY.read_text()
