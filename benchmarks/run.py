"""Measures kubevouch and writes a table, JSON and an SVG into a folder: ``make bench``.

Each run uses new servers in processes of their own; this process is the only client. docs/benchmarks.md says what each
row means.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

import joins
import plot
import reads
import report
import units
from cluster import Cluster, running
from kubevouch.util import logs
from kubevouch.util.clock import SystemClock
from report import Measure, Results

AT_ONCE = 64
_MS = 1000.0

MEASURES = (
    Measure("cold_start", "cold start of up to /readyz", "s", 1.0),
    Measure("rss_idle", "RSS, idle", "MiB", 90),
    Measure("join_one", "one join, kept connection", "ms", 6),
    Measure("join_whole", "one whole join, discovery to files", "ms"),
    Measure("storm_units", "server CPU a join, in units", "units", 15),
    Measure("storm_rate", "joins at 64 at once", "1/s", 400, at_least=True),
    Measure("storm_cpu", "server CPU a join", "ms"),
    Measure("storm_median", "a join at 64 at once, median", "ms"),
    Measure("storm_p99", "a join at 64 at once, 99th percentile", "ms"),
    Measure("unit", "the unit: a CSR check and a P-256 certificate", "ms"),
    Measure("rss_storm", "RSS after the storm", "MiB"),
    Measure("memory_units", "memory store: server CPU a join, in units", "units"),
    Measure("memory_rate", "memory store: joins at 64 at once", "1/s"),
    Measure("list_json", "list of 1,000 in JSON", "ms", 15),
    Measure("list_json_cold", "list of 1,000 in JSON, first after a start", "ms"),
    Measure("list_protobuf", "list of 1,000 in protobuf", "ms", 15),
    Measure("list_protobuf_cold", "list of 1,000 in protobuf, first", "ms"),
    Measure("watchers_first", "first of 500 watchers to hear", "ms"),
    Measure("watchers_last", "last of 500 watchers to hear", "ms", 20),
    Measure("watchers_rss", "RSS a watcher, with its TLS connection", "KiB"),
)


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    joins: int
    listed: int
    watchers: int


async def measure(results: Results, sizes: Sizes) -> None:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
        async with running(Path(folder) / "sqlite") as cluster:
            results.add("cold_start", cluster.cold_start)
            results.add("rss_idle", cluster.rss_mib())
            await _joins(results, cluster, sizes.joins)
        async with running(Path(folder) / "memory", "memory:") as cluster:
            await _memory(results, cluster, sizes.joins)
        async with running(Path(folder) / "reads") as cluster:
            await joins.storm(cluster, sizes.listed, AT_ONCE, "listed")
        async with running(Path(folder) / "reads") as cluster:
            await _reads(results, cluster, sizes.watchers)


async def _joins(results: Results, cluster: Cluster, storm: int) -> None:
    one = await joins.storm(cluster, 100, 1, "one")
    results.add("join_one", _MS * statistics.median(one.latencies))
    results.add("join_whole", _MS * statistics.median(await joins.whole_joins(cluster, 20)))
    before = units.unit_seconds()
    many = await joins.storm(cluster, storm, AT_ONCE, "storm")
    unit = statistics.mean((before, units.unit_seconds()))
    latencies = sorted(many.latencies)
    results.add("storm_units", many.cpu / storm / unit)
    results.add("storm_rate", storm / many.seconds)
    results.add("storm_cpu", _MS * many.cpu / storm)
    results.add("storm_median", _MS * statistics.median(latencies))
    results.add("storm_p99", _MS * latencies[len(latencies) * 99 // 100])
    results.add("unit", _MS * unit)
    results.add("rss_storm", cluster.rss_mib())


async def _memory(results: Results, cluster: Cluster, storm: int) -> None:
    await joins.storm(cluster, 100, AT_ONCE, "warm")
    unit = units.unit_seconds()
    many = await joins.storm(cluster, storm, AT_ONCE, "storm")
    results.add("memory_units", many.cpu / storm / unit)
    results.add("memory_rate", storm / many.seconds)


async def _reads(results: Results, cluster: Cluster, watchers: int) -> None:
    lists = await reads.lists(cluster, 10)
    results.add("list_json", _MS * statistics.median(lists.json_warm))
    results.add("list_json_cold", _MS * lists.json_cold)
    results.add("list_protobuf", _MS * statistics.median(lists.protobuf_warm))
    results.add("list_protobuf_cold", _MS * lists.protobuf_cold)
    heard = await reads.watchers(cluster, watchers)
    results.add("watchers_first", _MS * statistics.median(heard.first))
    results.add("watchers_last", _MS * statistics.median(heard.last))
    results.add("watchers_rss", 1024 * heard.rss_mib_a_watcher)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="folder for results.txt, results.json, results.svg")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--joins", type=int, default=2000, help="joins in the storm")
    parser.add_argument("--listed", type=int, default=1000, help="requests in the list")
    parser.add_argument("--watchers", type=int, default=500)
    options = parser.parse_args()
    sizes = Sizes(options.joins, options.listed, options.watchers)
    logs.configure(SystemClock(), level="error")
    results = Results(MEASURES)
    for number in range(1, options.runs + 1):
        print(f"run {number} of {options.runs}", flush=True)
        uvloop.run(measure(results, sizes))
    about = {"machine": report.machine(), "runs": str(options.runs)}
    about |= {name: str(value) for name, value in asdict(sizes).items()}
    text = report.table(results)
    options.into.mkdir(parents=True, exist_ok=True)
    (options.into / "results.txt").write_text(f"{about['machine']}\n\n{text}")
    (options.into / "results.json").write_bytes(report.as_json(results, about))
    (options.into / "results.svg").write_text(plot.svg(results, f"{about['machine']}, median of {options.runs} runs"))
    print(f"\n{about['machine']}\n\n{text}\nwritten to {options.into}")


if __name__ == "__main__":
    main()
