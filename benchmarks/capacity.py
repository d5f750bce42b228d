"""What a node costs a server: its join, its heartbeats, its renewals and the connection it keeps.

    .venv/bin/python benchmarks/capacity.py [--nodes 50] [--rounds 20] [--runs 3]

docs/capacity.md says what follows from it. All of it is processor time of the server, memory and disk: the
machine may have other work. Each node here has joined, and speaks with its own certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

import units
from cluster import Cluster, running
from http1 import Connection, trusting
from joins import CSRS
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_STRATEGIC = "application/strategic-merge-patch+json"
_MS = 1000.0
_DAY_LEASES, _DAY_STATUSES = 8640, 288
"""A kubelet renews its Lease every 10 s, and writes an unchanged status every 5 min (defaults of Kubernetes 1.36)."""


@dataclass
class Node:
    """One that has joined: its name, the pair it shows, and the connection it keeps."""

    name: str
    pair: Path
    connection: Connection
    watching: asyncio.Task[None] | None = None
    lease: dict[str, object] | None = None


async def join(cluster: Cluster, name: str, folder: Path) -> Path:
    """As a machine does, with a connection of its own; the pair that it got."""
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    connection = await cluster.connect()
    chain = await certify(connection, name, build_request(key, subject))
    connection.close()
    pair = folder / f"{name}.pem"
    pair.write_bytes(chain + keys.to_pem(key))
    return pair


async def certify(connection: Connection, name: str, request: bytes) -> bytes:
    """A request, and the watch of it until its certificate is there."""
    tree = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": f"{name}-"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    made = json.loads(await connection.request("POST", CSRS, json.dumps(tree).encode()))["metadata"]
    path = f"{CSRS}?watch=true&fieldSelector=metadata.name%3D{made['name']}&resourceVersion={made['resourceVersion']}"
    seen = b""
    async for piece in connection.watch(f"{path}&timeoutSeconds=300"):
        *lines, seen = (seen + piece).split(b"\n")
        for line in lines:
            if certificate := json.loads(line)["object"]["status"].get("certificate"):
                return base64.b64decode(certificate)
    raise RuntimeError(f"the watch of {made['name']} ended without a certificate")


async def cost(cluster: Cluster, nodes: list[Node], rounds: int, ask: Callable[[Node, int], Awaitable[None]]) -> float:
    """Processor seconds of the server for each call, all nodes at once."""
    await cluster.quiet()
    before = cluster.scheduled_seconds()
    for number in range(rounds):
        await asyncio.gather(*(ask(node, number) for node in nodes))
    await cluster.quiet()
    return (cluster.scheduled_seconds() - before) / (rounds * len(nodes))


async def measure(count: int, rounds: int) -> dict[str, float]:
    """One run with a new server."""
    with tempfile.TemporaryDirectory(prefix="kubevouch-capacity-") as scratch:
        folder = Path(scratch)
        async with running(folder / "cluster") as cluster:
            unit = units.library_unit_seconds()
            joined: list[Node] = []

            async def come(number: int) -> None:
                name = f"node-{number}"
                pair = await join(cluster, name, folder)
                connection = await _connect(cluster, pair)
                joined.append(Node(name, pair, connection))

            await cluster.quiet()
            before, rss, disk = cluster.scheduled_seconds(), cluster.rss_mib(), _size(cluster)
            for start in range(0, count, 16):
                await asyncio.gather(*(come(number) for number in range(start, min(start + 16, count))))
            await cluster.quiet()
            found = {"join": (cluster.scheduled_seconds() - before) / count}
            await asyncio.gather(*(_register(node) for node in joined))
            found["renewal"] = await cost(cluster, joined, 1, lambda node, _: _renew(cluster, node))
            found["lease"] = await cost(cluster, joined, rounds, _beat)
            found["status"] = await cost(cluster, joined, rounds, _report)
            for node in joined:
                node.watching = await _watch(cluster, node)
            await cluster.quiet()
            found["memory_kib"] = (cluster.rss_mib() - rss) * 1024 / count
            found["disk_kib"] = (_size(cluster) - disk) / 1024 / count
            for node in joined:
                node.connection.close()
                assert node.watching is not None
                node.watching.cancel()
            found["unit"] = statistics.mean((unit, units.library_unit_seconds()))
    return found


def _size(cluster: Cluster) -> int:
    return sum(path.stat().st_size for path in cluster.data_dir.glob("*.db*"))


async def _connect(cluster: Cluster, pair: Path) -> Connection:
    return await Connection.open(cluster.host, cluster.port, trusting(cluster.ca_file, pair), "")


async def _register(node: Node) -> None:
    tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}
    await node.connection.request("POST", "/api/v1/nodes", json.dumps(tree).encode())
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": _moment(0)},
    }
    node.lease = json.loads(await node.connection.request("POST", _LEASES, json.dumps(lease).encode()))


def _moment(number: int) -> str:
    return f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}.000000Z"


async def _beat(node: Node, number: int) -> None:
    lease: dict[str, dict[str, object]] = node.lease  # type: ignore[assignment]  # registered before
    lease["spec"]["renewTime"] = _moment(number + 1)
    body = json.dumps(lease).encode()
    node.lease = json.loads(await node.connection.request("PUT", f"{_LEASES}/{node.name}", body))


async def _report(node: Node, number: int) -> None:
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": _moment(number)[:19] + "Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": "as a kubelet writes it",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    body = json.dumps({"status": {"conditions": conditions}}).encode()
    path = f"/api/v1/nodes/{node.name}/status"
    await node.connection.request("PATCH", path, body, body_type=_STRATEGIC)


async def _renew(cluster: Cluster, node: Node) -> None:
    subject = Subject(common_name=f"system:node:{node.name}", organizations=("system:nodes",))
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)
    connection = await _connect(cluster, node.pair)
    await certify(connection, node.name, request)
    connection.close()


async def _watch(cluster: Cluster, node: Node) -> asyncio.Task[None]:
    """The watch of its own Node, on a connection of its own."""
    connection = await _connect(cluster, node.pair)
    accepted = asyncio.Event()

    async def read() -> None:
        try:
            path = f"/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{node.name}&timeoutSeconds=600"
            async for _ in connection.watch(path):
                accepted.set()
        finally:
            connection.close()

    task = asyncio.create_task(read())
    await accepted.wait()
    return task


def report(runs: list[dict[str, float]]) -> str:
    """The medians, with the lowest and the highest, and what a day of a node comes to."""
    lines = ["                                       median     from       to"]

    def row(title: str, values: list[float], unit: str) -> None:
        lines.append(f"{title:34} {statistics.median(values):10.3g} {min(values):8.3g} {max(values):8.3g}  {unit}")

    for key, title in (
        ("join", "a join, server CPU"),
        ("renewal", "a renewal"),
        ("lease", "a renewal of its Lease"),
        ("status", "a status"),
    ):
        row(title, [_MS * run[key] for run in runs], "ms")
        row("  in units", [run[key] / run["unit"] for run in runs], "units")
    row("memory a node, with a watch", [run["memory_kib"] for run in runs], "KiB")
    row("on the disk, a node", [run["disk_kib"] for run in runs], "KiB")
    beats = [_DAY_LEASES * run["lease"] + _DAY_STATUSES * run["status"] for run in runs]
    row("heartbeats of a day", beats, "s")
    row("nodes that fill one core", [86400 / each for each in beats], "")
    row("renewals a second that do", [1 / run["renewal"] for run in runs], "1/s")
    row("the unit", [_MS * run["unit"] for run in runs], "ms")
    return "\n".join(lines)


async def _main(nodes: int, rounds: int, runs: int) -> None:
    print(report([await measure(nodes, rounds) for _ in range(runs)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    uvloop.run(_main(options.nodes, options.rounds, options.runs))


if __name__ == "__main__":
    main()
