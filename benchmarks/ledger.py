"""The ledger with a million entries: what an entry costs, how soon one is found, how long a verification takes.

    .venv/bin/python benchmarks/ledger.py [--entries 1000000] [--folder DIR]

Entries are what a join leaves: it was approved, intended, issued. They are appended by 256, each batch waiting for the
disk before the next is made. Searches are for names drawn at random, over connections of their own as commands have.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import hashlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from kubevouch.ledger import checkpoints, opening, reading, schema, verification
from kubevouch.ledger.entries import APPROVED, INTENDED, ISSUED, Entry, Query
from kubevouch.ledger.store import SQLiteLedger, read
from kubevouch.util.clock import SystemClock

BATCH = 256
SEARCHES = 50
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CERTIFICATE, REQUEST = os.urandom(700), os.urandom(450)


def entry(number: int) -> Entry:
    machine = number // 3
    digest = hashlib.sha256(b"%d" % machine).hexdigest()
    asked = Entry(
        kind=(APPROVED, INTENDED, ISSUED)[number % 3], at=START + dt.timedelta(seconds=number),
        signer="kubernetes.io/kube-apiserver-client-kubelet", request=f"node-csr-{digest[:43]}", uid=digest[:36],
        requester="system:bootstrap:abcdef", digest=digest, subject=f"system:node:worker-{machine}",
        node=f"worker-{machine}", key=digest, token="abcdef", approver="kubelet-client", reason="AutoApproved",
        message="Auto approving kubelet client certificate after SubjectAccessReview.",
    )  # fmt: skip
    if asked.kind == ISSUED:
        return msgspec.structs.replace(
            asked, certificate=CERTIFICATE, serial=digest[:32], not_before=asked.at,
            not_after=asked.at + dt.timedelta(days=365),
        )  # fmt: skip
    return msgspec.structs.replace(
        asked, pkcs10=REQUEST, groups=("system:bootstrappers", "system:authenticated"),
        usages=("digital signature", "client auth"), created=asked.at,
    )  # fmt: skip


async def fill(path: Path, entries: int) -> tuple[float, float]:
    """Seconds of wall and of CPU that appending took; what makes the entries is not counted."""
    ledger = await SQLiteLedger.open(path, SystemClock())
    wall = cpu = 0.0
    for begin in range(0, entries, BATCH):
        batch = [entry(number) for number in range(begin, min(begin + BATCH, entries))]
        began, used = time.perf_counter(), time.process_time()
        await ledger.append(*batch)
        wall += time.perf_counter() - began
        cpu += time.process_time() - used
    await ledger.checkpoint()
    await ledger.close()
    return wall, cpu


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def verified(path: Path) -> verification.Report:
    with closing(opening.connect_to_read(path)) as connection:
        key = checkpoints.parse_key(reading.meta(connection, schema.KEY, path))
        return verification.verify(connection, key)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the ledger is made for the time of the run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "ledger.db"
        wall, cpu = asyncio.run(fill(path, options.entries))
        print(f"append, amortised            {wall / options.entries * 1000:8.3f} ms")
        print(f"append, CPU                  {cpu / options.entries * 1000:8.3f} ms")
        print(f"size of an entry             {path.stat().st_size / options.entries:8.0f} B")
        machines = options.entries // 3
        chosen = [random.randrange(machines) for _ in range(SEARCHES)]
        queries: dict[str, Callable[[int], Query]] = {
            "name": lambda machine: Query(name=f"worker-{machine}"),
            "serial": lambda machine: Query(serial=entry(3 * machine).digest[:32]),
            "token, newest 100": lambda _: Query(
                token="abcdef", kinds=frozenset({ISSUED}), newest_first=True, limit=100
            ),
            "newest 100": lambda _: Query(kinds=frozenset({ISSUED}), newest_first=True, limit=100),
        }
        for label, query in queries.items():
            taken = [seconds(partial(read, path, query(machine))) for machine in chosen]
            print(f"search by {label:18} {statistics.median(taken) * 1000:8.1f} ms, longest {max(taken) * 1000:.1f} ms")
        began = time.perf_counter()
        report = verified(path)
        assert not report.findings and report.size == options.entries, report.findings
        print(f"verify                       {time.perf_counter() - began:8.1f} s")
        print(f"open                         {seconds(lambda: opened_again(path)):8.2f} s")


def opened_again(path: Path) -> None:
    async def again() -> None:
        await (await SQLiteLedger.open(path, SystemClock())).close()

    asyncio.run(again())


if __name__ == "__main__":
    main()
