"""Joins: one after another, and many at once; from the CSR's creation to its certificate on a watch."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster
from http1 import Connection
from kubevouch.agent.discovery import TokenDiscovery
from kubevouch.agent.interface import Step
from kubevouch.client.endpoint import Endpoint
from kubevouch.phases.join import JoinOptions, join
from kubevouch.pki import keys, pins
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records.bootstrap_tokens import parse_token
from kubevouch.util.clock import SystemClock

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@dataclass(frozen=True)
class Prepared:
    """A request made before the clock starts: its name, and the body that creates it."""

    name: str
    body: bytes


def prepare(count: int, prefix: str) -> list[Prepared]:
    """Requests as kubelets make them, each with a P-256 key of its own and for a node of its own."""
    return [_prepared(f"{prefix}-{number}") for number in range(count)]


def _prepared(name: str) -> Prepared:
    subject = Subject(common_name=f"system:node:{name}", organizations=("system:nodes",))
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject)
    csr = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    return Prepared(name, json.dumps(csr, separators=(",", ":")).encode())


class CertificateWatch:
    """One watch of all requests; tells when each got its certificate."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        accepted = asyncio.Event()
        self._task = asyncio.create_task(self._read(accepted))
        await accepted.wait()

    def expect(self, name: str) -> asyncio.Future[float]:
        """Resolves to the moment (``perf_counter``) at which the certificate was read."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        return future

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._connection.close()

    async def _read(self, accepted: asyncio.Event) -> None:
        rest = b""
        async for piece in self._connection.watch(f"{CSRS}?watch=true&sendInitialEvents=false"
                                                  "&resourceVersionMatch=NotOlderThan"):  # fmt: skip
            accepted.set()
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                # The field is empty until it is issued; whole events are read only then, to spare the client's CPU.
                if b'"certificate":"' in line:
                    self._seen(json.loads(line)["object"]["metadata"]["name"])

    def _seen(self, name: str) -> None:
        future = self._waiting.pop(name, None)
        if future is not None:
            future.set_result(time.perf_counter())


@dataclass(frozen=True)
class Storm:
    """``latencies`` in seconds, one a join; ``cpu`` is the server's, in seconds, for all of them."""

    latencies: list[float]
    seconds: float
    cpu: float


async def storm(cluster: Cluster, count: int, at_once: int, prefix: str) -> Storm:
    """``count`` joins by ``at_once`` clients, each with a kept connection; one watch tells all of them."""
    todo = prepare(count, prefix)
    watch = CertificateWatch(await cluster.connect())
    await watch.start()
    connections = [await cluster.connect() for _ in range(at_once)]
    latencies: list[float] = []

    async def client(connection: Connection) -> None:
        while todo:
            latencies.append(await _one(connection, watch, todo.pop()))

    cpu, begun = cluster.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(client(connection) for connection in connections))
    seconds, cpu = time.perf_counter() - begun, cluster.cpu_seconds() - cpu
    for connection in connections:
        connection.close()
    await watch.close()
    return Storm(latencies, seconds, cpu)


async def _one(connection: Connection, watch: CertificateWatch, prepared: Prepared) -> float:
    issued = watch.expect(prepared.name)
    begun = time.perf_counter()
    await connection.request("POST", CSRS, prepared.body)
    return await issued - begun


class _Silent:
    def done(self, step: Step, detail: str = "") -> None: ...
    def waiting(self, why: str) -> None: ...
    def warning(self, text: str) -> None: ...


async def whole_joins(cluster: Cluster, count: int) -> list[float]:
    """Seconds of ``kubevouch join``'s work from discovery to files: new connections, a new key, fsync and all."""
    took = []
    discovery = TokenDiscovery(
        Endpoint(cluster.host, cluster.port), parse_token(cluster.discovery_token), pins.parse([cluster.pin])
    )
    with tempfile.TemporaryDirectory(prefix="kubevouch-bench-") as folder:
        for number in range(count):
            options = JoinOptions(
                discovery,
                f"whole-{number}",
                rootfs=Path(folder) / str(number),
                tls_bootstrap_token=parse_token(cluster.token),
            )
            begun = time.perf_counter()
            await join(options, SystemClock(), _Silent())
            took.append(time.perf_counter() - begun)
    return took
