"""``kubevouch agent`` as a process of its own, and what it can begin with."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.config import kubeconfig
from processes import KUBEVOUCH, PATIENCE_SECONDS, Ended, environment, kubevouch

READY_LINE = "the agent runs"


@dataclass
class RunningAgent:
    """``kubevouch agent`` for the tree ``node``, started in ``folder``, by ``through`` if that is given."""

    folder: Path
    node: Path
    more: tuple[str, ...] = ()
    extra_environment: tuple[tuple[str, str], ...] = ()
    through: tuple[str, ...] = ()

    @property
    def socket(self) -> Path:
        return self.folder / "agent.sock"

    @property
    def store(self) -> CertificateStore:
        return CertificateStore(self.node / "var/lib/kubelet/pki")

    def __enter__(self) -> RunningAgent:
        self.process = subprocess.Popen(
            [*self.through, *KUBEVOUCH, "agent", "--kubeconfig", self.node / "etc/kubernetes/kubelet.conf",
             "--bootstrap-kubeconfig", self.node / "etc/kubernetes/bootstrap-kubelet.conf",
             "--cert-dir", self.node / "var/lib/kubelet/pki", "--socket", self.socket,
             "--healthz-address", "127.0.0.1:0", *self.more],
            cwd=self.folder, env=environment(**dict(self.extra_environment)), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._changed = threading.Condition()
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            with self._changed:
                self._changed.notify_all()
        self.process.wait(PATIENCE_SECONDS)
        with self._changed:
            self._changed.notify_all()

    def until(self, text: str, count: int = 1) -> None:
        """Waits until so many lines with ``text`` were logged."""

        def said() -> bool:
            return sum(text in line for line in self.lines) >= count or self.process.poll() is not None

        with self._changed:
            self._changed.wait_for(said, PATIENCE_SECONDS)
        assert sum(text in line for line in self.lines) >= count, "".join(self.lines)

    def ended(self) -> tuple[int, str]:
        """Waits for its end; exit status and log."""
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        return code, "".join(self.lines)

    def command(self, *arguments: str) -> Ended:
        return kubevouch("agent", arguments[0], "--socket", self.socket, *arguments[1:], cwd=self.folder)

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.command("status", "-o", "json").stdout)
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def healthz_port(agent: RunningAgent) -> int:
    agent.until(READY_LINE)
    for line in agent.lines:
        if READY_LINE in line:
            return int(line.partition("healthz=")[2].split()[0])
    raise AssertionError(agent.lines)


def bootstrap_kubeconfig(folder: Path, node: Path, user: kubeconfig.User) -> None:
    """What the agent of ``node`` is to begin with at the cluster of ``kubevouch up`` in ``folder``."""
    admin = kubeconfig.load((folder / "cluster/admin.conf").read_bytes())
    cluster = next(iter(admin.clusters.values()))
    path = node / "etc/kubernetes/bootstrap-kubelet.conf"
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    path.write_text(
        kubeconfig.dump(
            kubeconfig.Kubeconfig(
                clusters={"c": cluster},
                users={"u": user},
                contexts={"x": kubeconfig.Context(cluster="c", user="u")},
                current_context="x",
            )
        )
    )
