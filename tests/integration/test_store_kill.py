"""kill -9 at any moment loses nothing that was acknowledged and leaves a store whose history has no gap."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import aio
from integration import store_writer
from kubevouch.storage.interface import Compacted, Revision, Store, StoreEvent
from kubevouch.storage.sqlite import SQLiteStore
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.store_suite import Watch, watching

ROUNDS = 24
TASKS = 16


@dataclass(frozen=True)
class Acknowledged:
    verb: str
    key: str
    revision: Revision


@contextmanager
def writer(path: Path, number: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that is ready to write; every third also compacts."""
    mode = "compact" if number % 3 == 2 else "keep"
    command = [sys.executable, store_writer.__file__, str(path), str(number), str(TASKS), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_after(process: "subprocess.Popen[str]", acknowledgements: int) -> list[Acknowledged]:
    """Lets the process write, kills it, and returns everything it said, up to its last breath."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    said = [next(process.stdout) for _ in range(acknowledgements)]
    process.kill()
    said += process.stdout.readlines()
    process.wait()
    assert all(line.endswith("\n") for line in said)
    return [Acknowledged(verb, key, Revision(int(revision))) for verb, key, revision in map(str.split, said)]


async def history(store: Store) -> tuple[Revision, list[StoreEvent]]:
    """The oldest state that is kept, and every event since."""
    newest = await store.revision()
    after = Revision(1)
    try:
        await store.list("", revision=after)
    except Compacted as gone:
        after = gone.oldest
    if after == newest:
        return after, []
    async with watching(store, "", after) as batches:
        return after, await Watch(batches).until(newest)


def assert_acknowledgement_is_kept(said: Acknowledged, event: StoreEvent) -> None:
    assert (event.key, event.revision) == (said.key, said.revision)
    assert (event.value is None) == (said.verb == "delete")
    assert (event.previous is None) == (said.verb == "create")


async def verified(path: Path, acknowledged: list[Acknowledged]) -> None:
    """Opens the store and compares it with everything that was ever acknowledged."""
    store = await SQLiteStore.open(path, clock=FakeClock())
    try:
        oldest, events = await history(store)
        assert [event.revision for event in events] == list(range(oldest + 1, await store.revision() + 1))
        by_revision = {event.revision: event for event in events}
        last: dict[str, Acknowledged] = {}
        for said in acknowledged:
            assert said.revision <= await store.revision()
            if said.revision > oldest:
                assert_acknowledgement_is_kept(said, by_revision[said.revision])
            last[said.key] = said
        held = {item.key: item for item in (await store.list("")).items}
        for key, said in last.items():
            item = held.get(key)
            if said.verb == "delete":
                assert item is None
            elif item is None:
                # The deletion that followed was not acknowledged any more; it may have happened.
                assert any(event.key == key and event.value is None for event in events) or oldest > said.revision
            else:
                assert item.revision >= said.revision
                assert item.value in [store_writer.value(key, turn) for turn in range(4)]
    finally:
        await store.close()


@pytest.mark.parametrize(("fewest", "most"), [(1, 60), (60, 1500)], ids=["early", "late"])
def test_every_acknowledged_write_survives(tmp_path: Path, fewest: int, most: int) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(most)
    acknowledged: list[Acknowledged] = []
    with ExitStack() as processes:
        # The next process starts up while the last one's work is verified.
        process = processes.enter_context(writer(path, 0))
        for number in range(1, ROUNDS // 2 + 1):
            following = processes.enter_context(writer(path, number))
            acknowledged += killed_after(process, chance.randint(fewest, most))
            aio.run(verified(path, acknowledged))
            process = following
