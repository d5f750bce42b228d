"""What is put to the test: processes of ours behind links that can fail, and what clients need to talk to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from faketime import WrongClock
from kubevouch.config import kubeconfig
from processes import PATIENCE_SECONDS, environment
from torture.proxy import Link
from torture.recorder import Client, Recorder, trusting

HOOK = Path(__file__).with_name("planted.py")
_ADDRESS = re.compile(r"kubevouch join [^ ]*:([0-9]+) ")


@dataclass
class Process:
    """A command of ours that can be killed, stopped and started again.

    Args:
        planted: names of changes of ``torture.planted`` that it runs with, by commas.
    """

    name: str
    arguments: tuple[str, ...]
    folder: Path
    planted: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None
    port: int | None = None
    _drain: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Until it has said where it listens."""
        program = (
            [sys.executable, str(HOOK), self.planted] if self.planted else [sys.executable, "-m", "kubevouch.cli.main"]
        )
        with self.log.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *self.wrapper, *program, *self.arguments, cwd=self.folder, env=environment(**self.variables),
                stdout=asyncio.subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = b""
            while found := await self.process.stdout.readline():
                said += found
                if address := _ADDRESS.search(found.decode()):
                    self.port = int(address[1])
                    self._drain = asyncio.create_task(self._read_on(self.process.stdout))
                    return
        await self.process.wait()
        raise RuntimeError(f"{self.name} ended: {said.decode()} {self.said[-2000:]}")

    @staticmethod
    async def _read_on(stdout: asyncio.StreamReader) -> None:
        while await stdout.read(1 << 16):
            pass

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def said(self) -> str:
        """On standard error, by all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait for the end."""
        if self.process is None:
            return
        self.port = None
        if self.process.returncode is None:
            self.send(signal.SIGCONT)
            self.send(number)
        await self.process.wait()
        if self._drain is not None:
            await self._drain
            self._drain = None


@dataclass
class System:
    """Processes, the links in front of them, and the credentials of an administrator.

    Args:
        edges: what clients connect to.
        inner: links between the processes.
    """

    name: str
    folder: Path
    processes: list[Process] = field(default_factory=list)
    edges: list[Link] = field(default_factory=list)
    inner: list[Link] = field(default_factory=list)
    ca: bytes = b""
    admin: str = ""
    clock: WrongClock | None = None
    disk: Callable[[str], None] | None = None
    """Mounts the file system of the store again, with other options."""

    def take_credentials(self, data_dir: Path) -> None:
        config = kubeconfig.load((data_dir / "admin.conf").read_bytes())
        (user,) = config.users.values()
        (cluster,) = config.clusters.values()
        pair = self.folder / "admin.pem"
        pair.write_bytes(user.client_certificate_data + user.client_key_data)
        self.ca, self.admin = cluster.certificate_authority_data, str(pair)

    def administrator(self, recorder: Recorder, name: str, edge: Link | None = None) -> Client:
        """A client with all rights, that stays with one edge."""
        link = edge or self.edges[0]
        return Client(recorder, name, lambda: link.url, trusting(self.ca, self.admin))

    @property
    def links(self) -> list[Link]:
        return [*self.edges, *self.inner]

    async def heal(self) -> None:
        """Undo everything that was done to it."""
        for link in self.links:
            link.heal()
        for process in self.processes:
            process.send(signal.SIGCONT)
            if not process.is_running:
                await process.start()

    async def close(self) -> None:
        for process in self.processes:
            await process.end()
        for link in self.links:
            await link.close()


@contextlib.asynccontextmanager
async def up_on_sqlite(folder: Path, planted: str = "", *more: str) -> AsyncIterator[System]:
    """One ``kubevouch up``, with bounds so small that what is rare otherwise is not: a compaction each second, and a
    history of a hundred events."""
    arguments = (
        "up", "--data-dir", "./cluster", "--bind-address", "127.0.0.1", "--secure-port", "0",
        "--etcd-compaction-interval", "1s", "--default-watch-cache-size", "100", *more,
    )  # fmt: skip
    server = Process("up", arguments, folder, planted)
    system = System("sqlite", folder, [server])
    try:
        await server.start()
        system.take_credentials(folder / "cluster")
        system.edges.append(await Link("clients", lambda: server.port).open())
        yield system
    finally:
        await system.close()


SYSTEMS = {"sqlite": up_on_sqlite}
"""By name, what makes them: a folder and the names of planted bugs go in."""
