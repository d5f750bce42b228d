"""Replays every request of ``api_surface.jsonl``, each against a fresh server, and expects the recorded answer.

What is answered differently on purpose stands in ``docs/compatibility.toml``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.api_surface.differences import Difference, differences
from contract.api_surface.rows import Row, read
from contract.api_surface.stage import Stage

VECTORS = Path(__file__).parents[1] / "vectors"

ROWS = read(VECTORS / "api_surface.jsonl")
DIFFERENCES = differences()
ALIKE = [row for row in ROWS if not any(each.covers(row) for each in DIFFERENCES)]
UNLIKE = [(row, each) for row in ROWS for each in DIFFERENCES if each.covers(row)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with asyncio.Runner() as runner:
        stage = Stage(tmp_path_factory.mktemp("api-surface"), runner)
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
