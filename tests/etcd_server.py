"""Real etcd for tests: one member or several on ports of their own, that can be killed, stopped and started again.

with EtcdServer(tmp_path) as etcd:          # one member, plain HTTP
    store = await EtcdStore.open(EtcdOptions(etcd.endpoints), clock)

with EtcdServer(tmp_path, members=3) as etcd:
    etcd.kill(etcd.leader())
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fixed_ports import free_port
from peers import binary

HOST = "127.0.0.1"
# Only a hang is a failure; below the limit of a test.
PATIENCE_SECONDS = 120.0
# Heartbeat and election timeout in ms. Alone a member leads at once; of several, none is to be taken for dead because
# the machine is loaded.
_ALONE, _AMONG_OTHERS = (10, 100), (100, 1000)
_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class TLSFiles:
    """Paths of PEM files: the authority that both sides trust, and the pair that members serve with."""

    ca: Path
    certificate: Path
    key: Path
    client_certificate: Path | None = None
    """With its key, what ``ctl`` shows; clients have to show one."""
    client_key: Path | None = None


class EtcdServer:
    """A running etcd. Data lie on tmpfs where there is one, and are gone at the end.

    Args:
        folder: where each member's log goes.
        members: how many.
        durable: whether members wait for the disk; without, they survive being killed, not the machine's end.
        arguments: more flags for every member.
        peer_ports: through which each member is reached by the others, if not by its own port: proxies.
    """

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        *,
        durable: bool = False,
        tls: TLSFiles | None = None,
        arguments: Sequence[str] = (),
        program: Path | None = None,
        peer_ports: Sequence[int] = (),
    ) -> None:
        self._logs = folder
        self._tls = tls
        self._flags = (*arguments, *(() if durable else ("--unsafe-no-fsync",)))
        self._program = program or binary("etcd", "etcd")
        self._scheme = "http" if tls is None else "https"
        self.client_ports = [free_port() for _ in range(members)]
        self.own_peer_ports = [free_port() for _ in range(members)]
        self._peer_ports = list(peer_ports) or self.own_peer_ports
        self._data: Path | None = None
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * members

    # -------------------------------------------------------------- as a whole

    @property
    def endpoints(self) -> tuple[str, ...]:
        """URLs of all members, as ``--etcd-servers`` takes them."""
        return tuple(f"{self._scheme}://{HOST}:{port}" for port in self.client_ports)

    @property
    def spec(self) -> str:
        """As ``--store`` takes it."""
        return "etcd://" + ",".join(f"{HOST}:{port}" for port in self.client_ports)

    def __enter__(self) -> EtcdServer:
        parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self._data = Path(tempfile.mkdtemp(prefix="etcd-", dir=parent))
        try:
            with contextlib.ExitStack() as ready:
                for each in range(len(self.processes)):
                    ready.enter_context(self._starting(each))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in range(len(self.processes)):
            self.kill(each)
        if self._data is not None:
            subprocess.run(["rm", "-rf", str(self._data)], check=True)

    # -------------------------------------------------------------- one member

    def start(self, member: int, *, wait: bool = True) -> None:
        """Start a member that was killed; without ``wait``, one that cannot have a leader yet."""
        with self._starting(member, wait=wait):
            pass

    def kill(self, member: int) -> None:
        """SIGKILL. It keeps its data for :meth:`start`."""
        process, self.processes[member] = self.processes[member], None
        if process is not None:
            process.kill()
            process.wait()

    def forget(self, member: int) -> None:
        """What a member that was killed has stored is gone."""
        assert self._data is not None  # entered
        shutil.rmtree(self._data / f"m{member}")

    def keep(self, member: int, into: Path) -> None:
        """A copy of what a member that was killed has stored, as a snapshot of its disk."""
        assert self._data is not None  # entered
        shutil.copytree(self._data / f"m{member}", into)

    def put_back(self, member: int, kept: Path) -> None:
        """What a member that was killed has stored is that again."""
        self.forget(member)
        assert self._data is not None  # entered
        shutil.copytree(kept, self._data / f"m{member}")

    def pause(self, member: int) -> None:
        """SIGSTOP: its connections stay open and nobody answers."""
        self._running(member).send_signal(signal.SIGSTOP)

    def resume(self, member: int) -> None:
        self._running(member).send_signal(signal.SIGCONT)

    def leader(self) -> int:
        """The number of the member that leads; waits until there is one."""
        begun = time.monotonic()
        while time.monotonic() < begun + PATIENCE_SECONDS:
            alive = [each for each, process in enumerate(self.processes) if process is not None]
            for each in alive:
                with contextlib.suppress(subprocess.CalledProcessError):
                    (found,) = json.loads(self.ctl("endpoint", "status", "-w", "json", member=each))
                    if found["Status"]["leader"] == found["Status"]["header"]["member_id"]:
                        return each
        raise AssertionError("no member leads")

    # -------------------------------------------------------------- by hand

    def ctl(self, *arguments: str, member: int | None = None, text: bytes | None = None) -> str:
        """What ``etcdctl`` prints, asked of one member or of all. Raises ``CalledProcessError``."""
        endpoints = self.endpoints if member is None else (self.endpoints[member],)
        flags = ["--endpoints", ",".join(endpoints)]
        if self._tls is not None:
            flags += ["--cacert", str(self._tls.ca)]
            if self._tls.client_certificate is not None:
                flags += ["--cert", str(self._tls.client_certificate), "--key", str(self._tls.client_key)]
        done = subprocess.run(
            [str(binary("etcd", "etcdctl")), *flags, *arguments],
            input=text, capture_output=True, env={"ETCDCTL_API": "3"}, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        return done.stdout.decode()

    def log(self, member: int = 0) -> str:
        return (self._logs / f"etcd-{member}.log").read_text()

    # -------------------------------------------------------------- starting

    def _running(self, member: int) -> subprocess.Popen[bytes]:
        process = self.processes[member]
        assert process is not None, f"member {member} is not running"
        return process

    @contextlib.contextmanager
    def _starting(self, member: int, *, wait: bool = True) -> Iterator[None]:
        """Starts a member; the end of the block waits until it serves, which the first of three cannot do alone."""
        assert self._data is not None  # entered
        # etcd says when it serves as systemd is told (sd_notify(3)).
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            address = self._data / f"notify-{member}-{time.monotonic_ns()}"
            notified.bind(str(address))
            with (self._logs / f"etcd-{member}.log").open("ab") as log:
                process = subprocess.Popen(
                    [str(self._program), *self._arguments(member)],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._data,
                    env={"NOTIFY_SOCKET": str(address)},
                )  # fmt: skip
            self.processes[member] = process
            yield
            begun = time.monotonic()
            while wait and not select.select([notified], [], [], 0.1)[0]:
                if process.poll() is not None or time.monotonic() > begun + PATIENCE_SECONDS:
                    raise AssertionError(f"etcd did not start: {self.log(member)[-2000:]}")

    def _arguments(self, member: int) -> list[str]:
        def url(port: int, scheme: str = "http") -> str:
            return f"{scheme}://{HOST}:{port}"

        heartbeat, election = _ALONE if len(self.processes) == 1 else _AMONG_OTHERS
        arguments: dict[str, Any] = {
            "name": f"m{member}",
            "data-dir": str(self._data / f"m{member}" if self._data is not None else ""),
            "listen-client-urls": url(self.client_ports[member], self._scheme),
            "advertise-client-urls": url(self.client_ports[member], self._scheme),
            "listen-peer-urls": url(self.own_peer_ports[member]),
            "initial-advertise-peer-urls": url(self._peer_ports[member]),
            "initial-cluster": ",".join(f"m{each}={url(port)}" for each, port in enumerate(self._peer_ports)),
            "heartbeat-interval": heartbeat,
            "election-timeout": election,
            "log-level": "warn",
        }
        if self._tls is not None:
            arguments |= {
                "cert-file": self._tls.certificate,
                "key-file": self._tls.key,
                "trusted-ca-file": self._tls.ca,
                "client-cert-auth": str(self._tls.client_certificate is not None).lower(),
            }
        return [*(f"--{name}={value}" for name, value in arguments.items()), *self._flags]
