"""Work under faults, and a checker that finds nothing; and the bugs that it has to find (docs/torture.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from asynctest import async_test
from torture.catalog import BUGS
from torture.history import Header, History
from torture.planted import PLANTED
from torture.run import explain, torture
from torture.systems import SYSTEMS
from torture.work import Mix

SEED = 14
MIX = Mix(writers=3, readers=1, listers=1, watchers=3)


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("sqlite", ("cut", "kill", "lose-answers", "stop")),
        ("pair", ("partition", "compact", "kill")),
    ],
)
@async_test
async def test_nothing_is_lost_while_servers_are_killed_stopped_and_cut_off(
    tmp_path: Path, name: str, faults: tuple[str, ...]
) -> None:
    history = History(Header(SEED, name))
    async with SYSTEMS[name](tmp_path, "") as system:
        found = await torture(system, history, faults, mix=MIX, between=30, after=30, seconds=0.5)
    assert not found, explain(history.records, found[0])


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.always])
@async_test
async def test_a_planted_bug_is_found(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    _, found = await bug.provoke(name, tmp_path, SEED)
    assert {each.rule for each in found} & set(bug.rules), found


def test_every_planted_bug_has_its_row() -> None:
    assert BUGS.keys() == PLANTED.keys()
    page = (Path(__file__).parents[2] / "docs/torture.md").read_text()
    for name, bug in BUGS.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert bug.rules[0] in row
