"""A ``kubevouch up`` in a process of its own: started, timed, looked at through /proc, stopped."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from http1 import Connection, trusting
from kubevouch.config import kubeconfig

_TICKS = os.sysconf("SC_CLK_TCK")
_URL = re.compile(r"https://([0-9.]+):([0-9]+)")
_TOKEN = re.compile(r"--(?:tls-bootstrap-)?token (\S+)")
_DISCOVERY = re.compile(r"--discovery-token (\S+)")
_PIN = re.compile(r"(sha256:[0-9a-f]{64})")
_START_SECONDS = 60.0
_END_SECONDS = 30.0
_QUIET_SECONDS = 0.5


@dataclass(frozen=True)
class Cluster:
    """A running server and what its first lines said. ``cold_start``: seconds from exec to /readyz."""

    pid: int
    port: int
    token: str
    discovery_token: str
    pin: str
    data_dir: Path
    cold_start: float

    host = "127.0.0.1"

    async def connect(self) -> Connection:
        """A kept connection that acts with the bootstrap token."""
        return await Connection.open(self.host, self.port, trusting(self.ca_file), self.token)

    async def connect_as_admin(self) -> Connection:
        return await Connection.open(self.host, self.port, self.admin_context(), "")

    @property
    def ca_file(self) -> Path:
        return self.data_dir / "pki" / "ca.crt"

    def admin_context(self) -> ssl.SSLContext:
        """For connections that show the certificate in admin.conf."""
        admin = kubeconfig.load((self.data_dir / "admin.conf").read_bytes())
        (user,) = admin.users.values()
        pair = self.data_dir / "admin.pem"
        pair.write_bytes(user.client_certificate_data + user.client_key_data)
        return trusting(self.ca_file, pair)

    def processes(self) -> list[int]:
        """The server's, the first one first: it may have workers."""
        found = [self.pid]
        for pid in found:
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def cpu_seconds(self) -> float:
        """User and system time so far (proc(5), fields 14 and 15 of stat)."""
        took = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in self.processes())
        return sum(int(user) + int(system) for user, system in took) / _TICKS

    def scheduled_seconds(self) -> float:
        """The same in nanoseconds' steps: what the scheduler has given all threads (first field of schedstat)."""
        return sum(self.scheduled_by_process().values())

    def scheduled_by_process(self) -> dict[int, float]:
        tasks = {pid: Path(f"/proc/{pid}/task").iterdir() for pid in self.processes()}
        return {
            pid: sum(int((task / "schedstat").read_text().partition(" ")[0]) for task in each) / 1e9
            for pid, each in tasks.items()
        }

    async def quiet(self) -> None:
        """Wait until the work of a start is done: controllers look at everything once."""
        before, now = 0.0, self.cpu_seconds()
        while now - before > _QUIET_SECONDS / 10:
            await asyncio.sleep(_QUIET_SECONDS)
            before, now = now, self.cpu_seconds()

    def rss_mib(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


@asynccontextmanager
async def running(
    data_dir: Path,
    store: str = "sqlite:",
    kubevouch: Path | None = None,
    workers: int = 1,
    flags: Sequence[str] = (),
) -> AsyncIterator[Cluster]:
    """The cluster in ``data_dir``, on the ``--store`` given; what it logs goes to a file beside the directory.

    ``kubevouch``: the command of another installation. ``flags``: further ones of ``up``. A server that does not end
    when it is told to is killed.
    """
    program = [sys.executable, "-m", "kubevouch.cli.main"] if kubevouch is None else [str(kubevouch)]
    command = [*program, "up", "--data-dir", str(data_dir), "--bind-address", Cluster.host, *flags]
    if workers > 1:
        command += ["--workers", str(workers)]
    with data_dir.with_suffix(".log").open("ab") as log:
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, "--secure-port", "0", "--store", store, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        try:
            async with asyncio.timeout(_START_SECONDS):
                cluster = await _ready(process, data_dir, begun)
            yield cluster
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), _END_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _ready(process: asyncio.subprocess.Process, data_dir: Path, begun: float) -> Cluster:
    assert process.stdout is not None  # a pipe was asked for
    said = ""
    while _PIN.search(said) is None:
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"kubevouch up has ended: {said}")
        said += line.decode()
    url, token, pin = _URL.search(said), _TOKEN.search(said), _PIN.search(said)
    discovery = _DISCOVERY.search(said)
    assert url and token and discovery and pin  # they stand on or before the line of the pin
    port = int(url[2])
    connection = await Connection.open(Cluster.host, port, trusting(data_dir / "pki" / "ca.crt"), "")
    await connection.request("GET", "/readyz")
    took = time.perf_counter() - begun
    connection.close()
    return Cluster(process.pid, port, token[1], discovery[1], pin[1], data_dir, took)
