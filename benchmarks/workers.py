"""What workers cost and bring: the same fleet of machines, by a server of one process and by servers with workers.

    .venv/bin/python benchmarks/workers.py --workers 1 2 3 --runs 3

For each process it says what a machine costs it. What a machine of many cores does follows from that: the owner is the
limit once its part of a second is used up, and up to there each worker adds what its own part allows. Where client and
server share cores, as on a small machine, the rate that is seen says little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop

from cluster import Cluster, running
from machines import Joined, fleet

_MS = 1000.0


@dataclass(frozen=True)
class Parts:
    """CPU seconds for each machine, by process; ``workers`` is empty for one process."""

    joined: Joined
    owner: float
    workers: list[float]


async def _parts(cluster: Cluster, count: int, number: int) -> Parts:
    before = cluster.scheduled_by_process()
    joined = await fleet(cluster, count, f"machine-{number}")
    after = cluster.scheduled_by_process()
    took = {pid: (after[pid] - before.get(pid, 0.0)) / count for pid in after}
    # The one that forks does nothing.
    first, *others = cluster.processes()
    return Parts(joined, took[first], [took[pid] for pid in others[1:]])


def _line(workers: int, parts: Parts) -> str:
    shares = ", ".join(f"{_MS * each:.2f}" for each in parts.workers)
    return (
        f"{workers} workers: {_MS * parts.joined.cpu:.2f} ms a machine, {parts.joined.units:.1f} units of "
        f"{_MS * parts.joined.unit:.3f} ms; owner {_MS * parts.owner:.2f} ms, workers {shares or 'none'}; "
        f"{parts.joined.rate:.0f}/s, client {_MS * parts.joined.client_cpu:.2f} ms"
    )


async def _measure(counts: list[int], runs: int, machines: int) -> None:
    took: dict[int, list[Parts]] = {each: [] for each in counts}
    for number in range(runs):
        for workers in counts if number % 2 == 0 else reversed(counts):
            with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
                async with running(Path(folder) / "cluster", workers=workers) as cluster:
                    await fleet(cluster, 200, "warm")
                    took[workers].append(await _parts(cluster, machines, number))
            print(_line(workers, took[workers][-1]), flush=True)
    for workers, parts in took.items():
        unit = statistics.median(each.joined.unit for each in parts)
        owner = statistics.median(each.owner for each in parts)
        worker = statistics.median(sum(each.workers) for each in parts)
        rate = sorted(each.joined.rate for each in parts)
        print(
            f"{workers} workers, median: owner {owner / unit:.1f} units, workers together {worker / unit:.1f} units; "
            f"{statistics.median(rate):.0f}/s ({rate[0]:.0f} to {rate[-1]:.0f})"
        )
        if worker:
            cores = 1 + worker / owner
            print(
                f"  on paper: {1 / worker:.0f}/s for each worker's core, until {1 / owner:.0f}/s at {cores:.1f} cores"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--machines", type=int, default=2000)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_measure(options.workers, options.runs, options.machines))


if __name__ == "__main__":
    main()
