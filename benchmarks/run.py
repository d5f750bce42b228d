"""Measures kubevouch and writes a table, JSON and an SVG into a folder: ``make bench``.

Each run uses new servers in processes of their own; this process and those it starts are the only clients.
docs/benchmarks.md says what each row means.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

import joins
import machines
import plot
import rates
import reads
import report
import units
from cluster import Cluster, running
from fill import fill
from http1 import JSON, PROTOBUF
from kubevouch.util import logs
from kubevouch.util.clock import SystemClock
from report import Measure, Results

AT_ONCE = 64
MACHINE_UNITS = 15.0
PAGE = 500  # kubectl's --chunk-size
LISTS = (20_000,)
_MS = 1000.0

_FORMS = {"json": (JSON, "JSON"), "protobuf": (PROTOBUF, "protobuf"), "table": (reads.TABLE, "a Table")}


def _lists(key: str, count: str, wanted: float | None = None) -> tuple[Measure, ...]:
    rows = []
    for form, (_, title) in _FORMS.items():
        limit = wanted if form != "table" else None
        rows.append(Measure(f"list_{form}_{key}", f"list of {count} in {title}", "ms", limit))
        rows.append(Measure(f"list_{form}_{key}_cold", f"list of {count} in {title}, first", "ms"))
    return tuple(rows)


def _machine_rows(key: str, who: str, wanted: float | None) -> tuple[Measure, ...]:
    return (
        Measure(f"{key}_units", f"server CPU {who}, in units", "units", wanted),
        Measure(f"{key}_cpu", f"server CPU {who}", "ms"),
        Measure(f"{key}_rate", f"{who.partition(' ')[2]}s that join, 64 at once", "1/s"),
    )


def measures(sizes: Sizes) -> tuple[Measure, ...]:
    """All rows, in their order."""
    crowd = f"{sizes.crowd:,}"
    long_lists: list[Measure] = []
    for count in sizes.lists:
        shown = f"{count:,}"
        long_lists += _lists(str(count), shown)
        long_lists.append(Measure(f"pages_{count}", f"{shown} in pages of {PAGE}", "ms"))
        for form, (_, title) in _FORMS.items():
            row = Measure(f"stall_{form}_{count}", f"longest get during a list of {shown} in {title}", "ms")
            long_lists.append(row)
    return (
        *_machine_rows("machine", "a machine", MACHINE_UNITS),
        *_machine_rows("whole", "a whole machine", None),
        Measure("library_unit", "the unit of these: cryptography's CSR check and certificate", "ms"),
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
        Measure("get_one", "gets, one client", "1/s", 600, at_least=True),
        Measure("get_many", "gets, 16 clients", "1/s", 1750, at_least=True),
        Measure("patch", "patches, 16 clients", "1/s"),
        Measure("apply", "applies, 16 clients", "1/s"),
        *_lists("1000", "1,000", 15),
        Measure("watchers_first", "first of 500 watchers to hear", "ms"),
        Measure("watchers_last", "last of 500 watchers to hear", "ms", 20),
        Measure("watchers_rss", "RSS a watcher, with its TLS connection", "KiB"),
        *long_lists,
        Measure("crowd_first", f"first of {crowd} watchers to hear", "ms"),
        Measure("crowd_last", f"last of {crowd} watchers to hear", "ms"),
        Measure("crowd_rss", f"RSS a watcher, of {crowd}", "KiB"),
    )


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    joins: int
    listed: int
    watchers: int
    seconds: float
    lists: tuple[int, ...]
    crowd: int


async def measure(results: Results, sizes: Sizes) -> None:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
        async with running(Path(folder) / "machines") as cluster:
            await machines.fleet(cluster, sizes.joins // 10, "warm")
            await _machines(results, cluster, "machine", sizes.joins)
        async with running(Path(folder) / "whole") as cluster:
            await machines.fleet(cluster, sizes.joins // 10, "warm", whole=True)
            await _machines(results, cluster, "whole", sizes.joins)
        async with running(Path(folder) / "sqlite") as cluster:
            results.add("cold_start", cluster.cold_start)
            results.add("rss_idle", cluster.rss_mib())
            await _joins(results, cluster, sizes.joins)
        async with running(Path(folder) / "memory", "memory:") as cluster:
            await _memory(results, cluster, sizes.joins)
        async with running(Path(folder) / "reads") as cluster:
            await joins.storm(cluster, sizes.listed, AT_ONCE, "listed")
        async with running(Path(folder) / "reads") as cluster:
            await _lists_of(results, cluster, "1000", 10)
            await _rates(results, cluster, sizes.seconds)
            await _watchers(results, cluster, "watchers", sizes.watchers)
        for count in sizes.lists:
            await fill(Path(folder) / "reads", count)
            async with running(Path(folder) / "reads") as cluster:
                await _lists_of(results, cluster, str(count), 3)
                results.add(f"pages_{count}", _MS * await reads.pages(cluster, PAGE))
                for form, (accept, _) in _FORMS.items():
                    results.add(f"stall_{form}_{count}", _MS * await reads.stall(cluster, accept, 3))
        if sizes.crowd:
            async with running(Path(folder) / "crowd") as cluster:
                await _watchers(results, cluster, "crowd", sizes.crowd)


async def _machines(results: Results, cluster: Cluster, key: str, count: int) -> None:
    joined = await machines.fleet(cluster, count, "machine", whole=key == "whole")
    results.add(f"{key}_units", joined.units)
    results.add(f"{key}_cpu", _MS * joined.cpu)
    results.add(f"{key}_rate", joined.rate)
    if key == "machine":
        results.add("library_unit", _MS * joined.unit)


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


async def _lists_of(results: Results, cluster: Cluster, key: str, repeats: int) -> None:
    for form, (accept, _) in _FORMS.items():
        took = await reads.lists(cluster, accept, repeats)
        results.add(f"list_{form}_{key}", _MS * took.warm)
        results.add(f"list_{form}_{key}_cold", _MS * took.cold)


async def _rates(results: Results, cluster: Cluster, seconds: float) -> None:
    await rates.prepare(cluster)
    results.add("get_one", await rates.rate(cluster, 1, seconds, rates.get))
    results.add("get_many", await rates.rate(cluster, rates.GET_CLIENTS, seconds, rates.get))
    results.add("patch", await rates.rate(cluster, rates.WRITE_CLIENTS, seconds, rates.patch))
    results.add("apply", await rates.rate(cluster, rates.WRITE_CLIENTS, seconds, rates.apply))


async def _watchers(results: Results, cluster: Cluster, key: str, count: int) -> None:
    heard = await reads.watchers(cluster, count)
    results.add(f"{key}_first", _MS * statistics.median(heard.first))
    results.add(f"{key}_last", _MS * statistics.median(heard.last))
    results.add(f"{key}_rss", 1024 * heard.rss_mib_a_watcher)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="folder for results.txt, results.json, results.svg")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--joins", type=int, default=2000, help="joins in the storm")
    parser.add_argument("--listed", type=int, default=1000, help="requests in the list")
    parser.add_argument("--watchers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each kind of request is counted")
    parser.add_argument("--lists", type=int, nargs="*", default=LISTS, metavar="N", help="lengths of the long lists")
    parser.add_argument("--crowd", type=int, default=0, help="watchers of one object, on a server of their own")
    options = parser.parse_args()
    sizes = Sizes(options.joins, options.listed, options.watchers, options.seconds, tuple(options.lists), options.crowd)
    logs.configure(SystemClock(), level="error")
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    results = Results(measures(sizes))
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
