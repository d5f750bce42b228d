"""Writes to a store as fast as it can, says what was acknowledged, and is killed. Run by test_store_kill.

    store_writer.py PATH ROUND TASKS COMPACT

Waits for a line on its standard input first, so that starting Python is no part of the test's time. Each
acknowledgement is one line, written at once: what happened (create, update, delete), key, revision.
"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from kubevouch.storage.interface import Revision, Store
from kubevouch.storage.sqlite import SQLiteStore


def value(key: str, turn: int) -> bytes:
    return f"{key} {turn} ".encode() * (turn * 37 % 90 + 1)


def say(verb: str, key: str, revision: Revision) -> None:
    os.write(1, f"{verb} {key} {revision}\n".encode())


async def write(store: Store, name: str) -> None:
    for turn in itertools.count():
        key = f"{name}/{turn}"
        revision = await store.create(key, value(key, 0))
        say("create", key, revision)
        for update in range(1, turn % 4 + 1):
            revision = await store.update(key, value(key, update), revision)
            say("update", key, revision)
        if turn % 3 == 2:
            revision = await store.delete(key, revision)
            say("delete", key, revision)


async def compact(store: Store) -> None:
    while True:
        await store.compact(await store.revision())
        await asyncio.sleep(0)


async def main(path: Path, name: str, tasks: int, compacting: bool) -> None:
    store = await SQLiteStore.open(path)
    work = [write(store, f"/{name}/{task}") for task in range(tasks)]
    if compacting:
        work.append(compact(store))
    await asyncio.gather(*work)


if __name__ == "__main__":
    sys.stdin.readline()
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "compact"))
