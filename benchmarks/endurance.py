"""Mixed work for a long time, and where the server's memory is meanwhile: ``make endurance``.

Joins, lists in all forms and in pages, watches that come and go, status of nodes, leases, patches, applies, large
objects, refused requests and bad credentials, each at a steady pace, against one ``kubevouch up`` on SQLite. What the
work leaves behind (issued requests, Events) is deleted again beyond a number, as it would be after an hour: the state
does not grow, so whatever does is memory that something keeps.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

import joins
from cluster import Cluster, running
from http1 import JSON, PROTOBUF, Connection, RequestFailed, trusting
from reads import TABLE

_KEPT_REQUESTS = 300
_NAMES = 40
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_EVENTS = "/api/v1/namespaces/default/events"
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_STATUS = re.compile(r": (\d{3}) ")
_GAUGE = re.compile(rb'^kubevouch_(\w+)_bytes(?:\{kind="([\w-]+)"\})? ([0-9.e+]+)$', re.MULTILINE)


@dataclass
class Load:
    """The work. ``done`` counts answers by what was asked for; a refusal that is meant to be one is an answer."""

    cluster: Cluster
    seconds: float
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        admin = await self.cluster.connect_as_admin()
        await self._prepare(admin)
        work: list[tuple[str, float, Callable[[], Callable[[int], Awaitable[None]]]]] = [
            ("join", 2, self._joins), ("list", 2, self._lists), ("watch", 4, self._watches),
            ("patch", 15, self._patches), ("apply", 5, self._applies), ("node status", 4, self._statuses),
            ("lease", 15, self._leases), ("large object", 0.5, self._large), ("bad credential", 5, self._bad),
            ("refused", 10, self._refused), ("clean up", 0.1, self._clean_up),
        ]  # fmt: skip
        await asyncio.gather(*(self._pace(name, rate, make()) for name, rate, make in work))

    async def _pace(self, name: str, rate: float, ask: Callable[[int], Awaitable[None]]) -> None:
        begun = time.perf_counter()
        for number in itertools.count():
            late = begun + number / rate - time.perf_counter()
            if number / rate > self.seconds or time.perf_counter() - begun > self.seconds:
                return
            await asyncio.sleep(max(late, 0.0))
            try:
                await ask(number)
                self.done[name] += 1
            except (RequestFailed, OSError, EOFError) as err:
                status = _STATUS.search(str(err))
                self.failed[f"{name}: {status[1] if status else type(err).__name__}"] += 1

    async def _prepare(self, admin: Connection) -> None:
        for number in range(_NAMES):
            await admin.request("POST", _CONFIG_MAPS, _tree("v1", "ConfigMap", f"c{number}"))
            await admin.request("POST", "/api/v1/nodes", _tree("v1", "Node", f"n{number}"))
            await admin.request("POST", _LEASES, _tree("coordination.k8s.io/v1", "Lease", f"n{number}"))

    def _as_admin(self) -> Callable[..., Awaitable[bytes]]:
        """Requests over one kept connection, one after the other."""
        opened: list[Connection] = []
        turn = asyncio.Lock()

        async def request(*arguments: object, **more: str) -> bytes:
            async with turn:
                if not opened:
                    opened.append(await self.cluster.connect_as_admin())
                try:
                    return await opened[0].request(*arguments, **more)  # type: ignore[arg-type]  # passed through
                except (OSError, EOFError):
                    opened.clear()
                    raise

        return request

    def _joins(self) -> Callable[[int], Awaitable[None]]:
        async def ask(number: int) -> None:
            one = joins.prepare(1, f"endured-{number}")[0]
            connection = await self.cluster.connect()
            try:
                await connection.request("POST", joins.CSRS, one.body)
                path = f"{joins.CSRS}/{one.name}"
                while b'"certificate":"' not in await connection.request("GET", path):  # noqa: ASYNC110 - a client's poll
                    await asyncio.sleep(0.02)
            finally:
                connection.close()

        return ask

    def _lists(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            path = (joins.CSRS, "/api/v1/nodes", f"{joins.CSRS}?limit=50", _CONFIG_MAPS)[number % 4]
            await request("GET", path, accept=(JSON, PROTOBUF, TABLE)[number // 4 % 3])

        return ask

    def _watches(self) -> Callable[[int], Awaitable[None]]:
        """Each lasts for ten seconds; some read nothing at all."""

        async def ask(number: int) -> None:
            path = (joins.CSRS, "/api/v1/nodes", _CONFIG_MAPS, _LEASES)[number % 4]
            accept = (JSON, PROTOBUF, TABLE)[number // 4 % 3]
            background.add(task := asyncio.create_task(follow(path, accept, reads=number % 5 > 0)))
            task.add_done_callback(background.discard)

        async def follow(path: str, accept: str, *, reads: bool) -> None:
            connection = None
            try:
                connection = await self.cluster.connect_as_admin()
                async with asyncio.timeout(10):
                    async for _ in connection.watch(f"{path}?watch=true&allowWatchBookmarks=true", accept):
                        if not reads:
                            await asyncio.sleep(10)
            except (TimeoutError, OSError, EOFError, ValueError):
                pass
            finally:
                if connection is not None:
                    connection.close()

        background: set[asyncio.Task[None]] = set()
        return ask

    def _patches(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            body = json.dumps({"data": {"value": str(number), "more": "x" * random.randrange(3000)}}).encode()
            await request("PATCH", f"{_CONFIG_MAPS}/c{number % _NAMES}", body, body_type=_MERGE)

        return ask

    def _applies(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            body = _tree("v1", "ConfigMap", f"c{number % _NAMES}", data={f"key-{number % 7}": str(number)})
            path = f"{_CONFIG_MAPS}/c{number % _NAMES}?fieldManager=m{number % 5}&force=true"
            await request("PATCH", path, body, body_type=_APPLY)

        return ask

    def _statuses(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            images = [{"names": [f"registry.example/{number}/image-{each}@sha256:{each:064}"]} for each in range(250)]
            body = json.dumps({"status": {"images": images}}).encode()
            await request("PATCH", f"/api/v1/nodes/n{number % _NAMES}/status", body, body_type=_MERGE)

        return ask

    def _leases(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            body = json.dumps({"spec": {"holderIdentity": f"h{number}"}}).encode()
            await request("PATCH", f"{_LEASES}/n{number % _NAMES}", body, body_type=_MERGE)

        return ask

    def _large(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(number: int) -> None:
            body = json.dumps({"data": {"large": f"{number}" + "x" * 900_000}}).encode()
            await request("PATCH", f"{_CONFIG_MAPS}/c{number % 3}", body, body_type=_MERGE)

        return ask

    def _bad(self) -> Callable[[int], Awaitable[None]]:
        async def ask(number: int) -> None:
            token = f"{number:06x}.{random.randbytes(8).hex()}"
            connection = await Connection.open(
                self.cluster.host, self.cluster.port, trusting(self.cluster.ca_file), token
            )
            try:
                await connection.request("GET", joins.CSRS)
            except RequestFailed as err:
                if " 401 " not in str(err) and " 429 " not in str(err):
                    raise
            finally:
                connection.close()

        return ask

    def _refused(self) -> Callable[[int], Awaitable[None]]:
        async def ask(number: int) -> None:
            connection = await self.cluster.connect()
            try:
                await connection.request("POST", f"/apis/g{number}.example/v1/r{number}", b"{}")
            except RequestFailed as err:
                if " 403 " not in str(err):
                    raise
            finally:
                connection.close()

        return ask

    def _clean_up(self) -> Callable[[int], Awaitable[None]]:
        request = self._as_admin()

        async def ask(_number: int) -> None:
            found = json.loads(await request("GET", joins.CSRS))["items"]
            found.sort(key=lambda each: each["metadata"]["creationTimestamp"])
            for each in found[:-_KEPT_REQUESTS]:
                await request("DELETE", f"{joins.CSRS}/{each['metadata']['name']}")
            await request("DELETE", _EVENTS)

        return ask


def _tree(api_version: str, kind: str, name: str, **more: object) -> bytes:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}).encode()


@dataclass(frozen=True)
class Look:
    """One look at the server; ``caches`` in MiB by what they hold."""

    at: float
    rss_mib: float
    disk_mib: float
    caches: dict[str, float]


async def look(cluster: Cluster, admin: Connection, at: float) -> Look:
    scraped = await admin.request("GET", "/metrics", accept="text/plain")
    caches = {(kind or name).decode(): float(size) / 1024**2 for name, kind, size in _GAUGE.findall(scraped)}
    disk = sum(file.stat().st_size for file in cluster.data_dir.rglob("*.db*") if file.exists())
    return Look(at, cluster.rss_mib(), disk / 1024**2, caches)


async def endure(folder: Path, seconds: float, every: float, kubevouch: Path | None) -> tuple[list[Look], Load]:
    """The looks at one server, ``every`` so many seconds; the first is before any work."""
    async with running(folder / "cluster", kubevouch=kubevouch) as cluster:
        await cluster.quiet()
        admin = await cluster.connect_as_admin()
        looks = [await look(cluster, admin, 0.0)]
        load = Load(cluster, seconds)
        print(_row(looks[-1]), flush=True)
        begun = time.perf_counter()
        task = asyncio.create_task(load.run())
        while not task.done():
            await asyncio.wait({task}, timeout=every)
            looks.append(await look(cluster, admin, time.perf_counter() - begun))
            print(_row(looks[-1]), flush=True)
        await task
        return looks, load


def _row(seen: Look) -> str:
    caches = "  ".join(f"{name} {size:.1f}" for name, size in seen.caches.items() if size >= 0.05)
    return f"{seen.at:6.0f} s  RSS {seen.rss_mib:6.1f} MiB  disk {seen.disk_mib:6.1f} MiB  {caches}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two looks")
    parser.add_argument("--into", type=Path, help="a file for what was seen, as JSON")
    parser.add_argument("--kubevouch", type=Path, help="the command of another installation  [default: this one]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kubevouch-endurance-") as folder:
        looks, load = uvloop.run(endure(Path(folder), options.seconds, options.every, options.kubevouch))
    print("answered:", ", ".join(f"{count} {name}" for name, count in sorted(load.done.items())))
    if load.failed:
        print("failed:", dict(load.failed))
    if options.into is not None:
        looked = [{"at": each.at, "rss": each.rss_mib, "disk": each.disk_mib, **each.caches} for each in looks]
        options.into.write_text(json.dumps({"looks": looked, "done": load.done, "failed": load.failed}, indent=1))


if __name__ == "__main__":
    main()
