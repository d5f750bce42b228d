"""Machines as they are: each with a TLS connection, a request and a watch of its own.

Alone, it compares installations, one run of each after the other, again and again:

    .venv/bin/python benchmarks/machines.py --kubevouch .venv/bin/kubevouch OTHER/.venv/bin/kubevouch --runs 5
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

import units
from cluster import Cluster, running
from machine_client import Fleet, Seen

AT_ONCE = 64
_MS = 1000.0


@dataclass(frozen=True)
class Joined:
    """What one fleet cost. ``cpu``: seconds of the server for each machine, with what it did about them afterwards.

    ``unit``: CPU seconds of a ``cryptography`` CSR check and certificate, before and after the fleet. ``rate``:
    machines a second. ``client_cpu``: what the client itself took for each, in seconds.
    """

    cpu: float
    unit: float
    rate: float
    latencies: list[float]
    client_cpu: float

    @property
    def units(self) -> float:
        return self.cpu / self.unit


async def fleet(cluster: Cluster, count: int, prefix: str, *, whole: bool = False) -> Joined:
    """``count`` machines, 64 at a time, played by a process of its own."""
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("machine_client.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert client.stdin is not None and client.stdout is not None  # pipes were asked for
    try:
        order = Fleet(
            host=cluster.host,
            port=cluster.port,
            ca_file=str(cluster.ca_file),
            token=cluster.token,
            prefix=prefix,
            count=count,
            at_once=AT_ONCE,
            whole=whole,
        )
        client.stdin.write(msgspec.json.encode(order) + b"\n")
        if await client.stdout.readline() != b"prepared\n":
            raise RuntimeError("the client could not prepare its requests")
        before = units.library_unit_seconds()
        await cluster.quiet()
        cpu = cluster.scheduled_seconds()
        client.stdin.write(b"go\n")
        seen = msgspec.json.decode(await client.stdout.readline(), type=Seen)
        await cluster.quiet()
        cpu = cluster.scheduled_seconds() - cpu
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()
    unit = statistics.mean((before, units.library_unit_seconds()))
    return Joined(cpu / count, unit, count / seen.seconds, seen.latencies, seen.cpu / count)


async def _compare(installations: list[Path], runs: int, count: int, whole: bool) -> None:
    took: dict[Path, list[Joined]] = {each: [] for each in installations}
    for number in range(runs):
        for installation in installations if number % 2 == 0 else reversed(installations):
            with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
                async with running(Path(folder) / "cluster", kubevouch=installation) as cluster:
                    await fleet(cluster, 200, "warm", whole=whole)
                    took[installation].append(await fleet(cluster, count, "machine", whole=whole))
            joined = took[installation][-1]
            print(
                f"{installation}: {_MS * joined.cpu:.2f} ms, {joined.units:.1f} units of {_MS * joined.unit:.3f} ms, "
                f"{joined.rate:.0f}/s, client {_MS * joined.client_cpu:.2f} ms",
                flush=True,
            )
    for installation, joins in took.items():
        cpu = sorted(_MS * each.cpu for each in joins)
        in_units = sorted(each.units for each in joins)
        rate = sorted(each.rate for each in joins)
        print(
            f"{installation}\n  median {statistics.median(cpu):.2f} ms ({cpu[0]:.2f} to {cpu[-1]:.2f}), "
            f"{statistics.median(in_units):.1f} units ({in_units[0]:.1f} to {in_units[-1]:.1f}), "
            f"{statistics.median(rate):.0f}/s ({rate[0]:.0f} to {rate[-1]:.0f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kubevouch", type=Path, nargs="+", required=True, help="commands of the installations")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--machines", type=int, default=2000)
    parser.add_argument("--whole", action="store_true", help="with the two connections of discovery")
    options = parser.parse_args()
    uvloop.run(_compare(options.kubevouch, options.runs, options.machines, options.whole))


if __name__ == "__main__":
    main()
