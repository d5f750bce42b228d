"""What is put to the test: processes of ours behind links that can fail, and what clients need to talk to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from etcd_server import EtcdServer
from faketime import WrongClock, wrong_clock
from file_systems import memory_disk
from fixed_ports import free_port
from kubevouch.config import kubeconfig
from processes import KUBEVOUCH, PATIENCE_SECONDS, environment
from torture.proxy import Link
from torture.recorder import Client, Recorder, trusting

HOOK = Path(__file__).with_name("planted.py")
_ADDRESS = re.compile(r"kubevouch join [^ ]*:([0-9]+) |^ *ready.*:([0-9]+)")

_GONE_SECONDS = 30.0


@dataclass
class Process:
    """A command of ours that can be killed, stopped and started again.

    Args:
        planted: names of changes of ``torture.planted`` that it runs with, by commas.
        fixed_port: where it listens, if it was told; else it prints that, where it is the only server.
    """

    name: str
    arguments: tuple[str, ...]
    folder: Path
    planted: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    fixed_port: int | None = None
    process: asyncio.subprocess.Process | None = None
    port: int | None = None
    _drain: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Until it has said where it listens."""
        planted = self.planted.replace("mortal", f"mortal:{self.arming}")
        program = [sys.executable, str(HOOK), planted] if planted else [*KUBEVOUCH]
        with self.log.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *program, *self.arguments, cwd=self.folder, env=environment(**self.variables),
                stdout=asyncio.subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            said = b""
            while found := await self.process.stdout.readline():
                said += found
                if address := _ADDRESS.search(found.decode()):
                    self.port = self.fixed_port or int(address[1] or address[2])
                    self._drain = asyncio.create_task(self._read_on(self.process.stdout))
                    return
        await self.process.wait()
        raise RuntimeError(f"{self.name} ended: {said.decode()} {self.said[-2000:]}")

    @staticmethod
    async def _read_on(stdout: asyncio.StreamReader) -> None:
        while await stdout.read(1 << 16):
            pass

    @property
    def arming(self) -> Path:
        """What ``torture.planted.mortal`` reads."""
        return self.folder / f"{self.name}.dies"

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

    def children(self) -> list[int]:
        """All processes below this one."""
        found = [self.pid] if self.is_running else []
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    found += map(int, children.read_text().split())
        return found[1:]

    async def gone(self, children: list[int]) -> None:
        """Wait until this process, which ends, and its ``children`` have done so: nobody may be left."""
        assert self.process is not None
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
        try:
            async with asyncio.timeout(_GONE_SECONDS):
                await self.process.wait()
                while any(map(_is_alive, children)):  # noqa: ASYNC110 - they are nobody's children any more
                    await asyncio.sleep(0.05)
        except TimeoutError:
            left = [pid for pid in (self.pid, *children) if _is_alive(pid)]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{self.name} has left processes running: {left}") from None

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal and wait for the end."""
        if self.process is None:
            return
        self.port = None
        children = self.children()
        if self.process.returncode is None:
            self.send(signal.SIGCONT)
            self.send(number)
        await self.gone(children)
        if self._drain is not None:
            await self._drain
            self._drain = None


def _is_alive(pid: int) -> bool:
    """Whether it runs, or is stopped; not one that has ended and that nobody has asked about yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Member:
    """One member of an etcd cluster, as a process that can be killed, stopped and started again."""

    etcd: EtcdServer
    number: int

    @property
    def name(self) -> str:
        return f"etcd-{self.number}"

    @property
    def is_running(self) -> bool:
        process = self.etcd.processes[self.number]
        return process is not None and process.poll() is None

    @property
    def pid(self) -> int:
        process = self.etcd.processes[self.number]
        assert process is not None
        return process.pid

    def send(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    async def start(self) -> None:
        # Others may be stopped, so it may take a while until it has a leader.
        await self.end()
        await asyncio.to_thread(self.etcd.start, self.number, wait=False)

    async def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """With whatever signal: killed."""
        self.send(signal.SIGCONT)
        await asyncio.to_thread(self.etcd.kill, self.number)


@dataclass
class System:
    """Processes, the links in front of them, and the credentials of an administrator.

    Args:
        edges: what clients connect to.
        groups: links that fail together, by what their failure means.
    """

    name: str
    folder: Path
    processes: list[Process | Member] = field(default_factory=list)
    edges: list[Link] = field(default_factory=list)
    groups: dict[str, list[Link]] = field(default_factory=dict)
    ca: bytes = b""
    admin: str = ""
    clock: WrongClock | None = None
    disk: Path | None = None
    """Where a small file system of its own is, if the store has one."""
    etcd: EtcdServer | None = None
    data_dirs: list[Path] = field(default_factory=list)

    def take_credentials(self, data_dir: Path) -> None:
        config = kubeconfig.load((data_dir / "admin.conf").read_bytes())
        (user,) = config.users.values()
        (cluster,) = config.clusters.values()
        pair = self.folder / "admin.pem"
        pair.write_bytes(user.client_certificate_data + user.client_key_data)
        self.ca, self.admin = cluster.certificate_authority_data, str(pair)

    def administrator(self, recorder: Recorder, name: str, address: Callable[[], str]) -> Client:
        """A client with all rights."""
        return Client(recorder, name, address, trusting(self.ca, self.admin))

    def roaming(self, chance: random.Random) -> Callable[[], str]:
        """The address of another server for each request, or the same again."""
        return lambda: chance.choice(self.edges).url

    @property
    def links(self) -> list[Link]:
        return [link for links in self.groups.values() for link in links]

    async def edge(self, process: Process) -> None:
        link = await Link(f"clients-{process.name}", lambda: process.port).open()
        self.edges.append(link)
        self.groups[link.name] = [link]

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
async def up_on_sqlite(
    folder: Path, planted: str = "", variables: dict[str, str] | None = None, more: tuple[str, ...] = ()
) -> AsyncIterator[System]:
    """One ``kubevouch up``, with bounds so small that what is rare otherwise is not: a compaction each second, and a
    history of a hundred events."""
    server = Process("up", ("up", *_flags(folder / "cluster", "sqlite:"), *more), folder, planted, variables or {})
    system = System("sqlite", folder, [server], data_dirs=[folder / "cluster"])
    try:
        await server.start()
        system.take_credentials(folder / "cluster")
        await system.edge(server)
        yield system
    finally:
        await system.close()


@contextlib.asynccontextmanager
async def up_with_its_own_clock(folder: Path, planted: str = "") -> AsyncIterator[System]:
    """As :func:`up_on_sqlite`, with a wall clock that can step."""
    clock = wrong_clock(folder, "+0")
    async with up_on_sqlite(folder, planted, variables=clock.environment) as system:
        system.clock = clock
        yield system


@contextlib.asynccontextmanager
async def up_on_a_small_disk(folder: Path, planted: str = "") -> AsyncIterator[System]:
    """As :func:`up_on_sqlite`, with a file system of its own, which only root may mount."""
    (folder / "cluster").mkdir()
    with memory_disk(folder / "cluster", "size=128m"):
        async with up_on_sqlite(folder, planted) as system:
            system.disk = folder / "cluster"
            yield system


@contextlib.asynccontextmanager
async def on_etcd(
    folder: Path, planted: str = "", *, commands: tuple[str, ...] = ("up",), members: int = 1
) -> AsyncIterator[System]:
    """Servers with one authority over an etcd of ``members``, each with a link to each. The first of them is an up.

    Args:
        commands: up or serve, with which flags.
    """
    system = System("etcd", folder)
    peers = [await Link(f"peers-etcd-{each}", partial(_peer_port, system, each)).open() for each in range(members)]
    etcd = EtcdServer(folder, members, durable=True, peer_ports=[link.port for link in peers])
    try:
        system.etcd = etcd
        # In a thread: the members reach each other through links of this loop.
        await asyncio.to_thread(etcd.__enter__)
        if members > 1:
            system.groups |= {link.name: [link] for link in peers} | {"peers": peers}
        else:
            await peers[0].close()
        for number, command in enumerate(commands):
            links = [
                await Link(f"server-{number}-etcd-{each}", partial(_own_port, port)).open()
                for each, port in enumerate(etcd.client_ports)
            ]
            system.groups[f"server-{number}-etcd"] = links
            data_dir = folder / f"server-{number}"
            system.data_dirs.append(data_dir)
            if number:
                shutil.copytree(folder / "server-0/pki", data_dir / "pki")
            store = "etcd://" + ",".join(f"127.0.0.1:{link.port}" for link in links)
            port, changed = free_port(), ",".join(filter(None, ("short-lease", planted)))
            arguments = (*command.split(), *_flags(data_dir, store, port))
            server = Process(f"server-{number}", arguments, folder, changed, fixed_port=port)
            system.processes.append(server)
            await server.start()
            await system.edge(server)
        system.take_credentials(folder / "server-0")
        system.processes += [Member(etcd, each) for each in range(members)]
        yield system
    finally:
        await system.close()
        await asyncio.to_thread(etcd.__exit__, None, None, None)
        for link in peers:
            await link.close()


def _peer_port(system: System, member: int) -> int | None:
    return None if system.etcd is None else system.etcd.own_peer_ports[member]


def _own_port(port: int) -> int:
    return port


def _flags(data_dir: Path, store: str, port: int = 0) -> tuple[str, ...]:
    return (
        "--data-dir", str(data_dir), "--bind-address", "127.0.0.1", "--secure-port", str(port), "--store", store,
        "--etcd-compaction-interval", "1s", "--default-watch-cache-size", "100",
    )  # fmt: skip


SYSTEMS: dict[str, Callable[[Path, str], contextlib.AbstractAsyncContextManager[System]]] = {
    "sqlite": up_on_sqlite,
    "workers": partial(up_on_sqlite, more=("--workers", "2")),
    "clock": up_with_its_own_clock,
    "disk": up_on_a_small_disk,
    "etcd": on_etcd,
    "pair": partial(on_etcd, commands=("up", "up")),
    "replicas": partial(on_etcd, commands=("up", "up", "up"), members=3),
    "servers": partial(on_etcd, commands=("up", "up --workers 2", "serve"), members=3),
}
"""By name, what makes them: a folder and the names of planted bugs go in."""
