"""Real processes of ours for tests: a cluster by `kubevouch up`, and commands run to their end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch.phases.bootstrap_token import plan
from kubevouch.records.bootstrap_tokens import generate_token, to_secret
from kubevouch.util.clock import SystemClock
from stalls import expect_no_stalls, without_stalls
from wire import Wire

# Under load a start that takes 0.5 s may take a minute; only a hang is a failure. Below the limit of a test.
PATIENCE_SECONDS = 240.0
KUBEVOUCH = (sys.executable, "-m", "kubevouch.cli.main")
_JOIN = re.compile(
    r"kubevouch join (\S+) --discovery-token (\S+) --tls-bootstrap-token (\S+) --discovery-token-ca-cert-hash (\S+)"
)


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str


def environment(**more: str) -> dict[str, str]:
    """A plain environment: no proxies, no kubeconfig, no colours."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"NO_COLOR": "1", "PYTHONUNBUFFERED": "1"} | more


def run(*command: str | Path, cwd: Path, text: str | None = None, **more: str) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=environment(**more), input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
        check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def kubevouch(*arguments: str | Path, cwd: Path, **more: str) -> Ended:
    """Run a `kubevouch` command to its end."""
    return run(*KUBEVOUCH, *arguments, cwd=cwd, **more)


@dataclass
class Up:
    """A running `kubevouch up --data-dir ./cluster`, started in ``folder``."""

    folder: Path
    arguments: tuple[str, ...] = ()
    printed: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    token: str | None = None

    def start(self) -> Up:
        """Start, and wait until the line with the join command is printed."""
        with (self.folder / "up.stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [*KUBEVOUCH, "up", "--data-dir", "./cluster", "--secure-port", "0", *self.arguments],
                cwd=self.folder, env=environment(**self.variables), stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        self.printed = []
        if "memory:" in self.arguments:
            self.token = None
        watchdog = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                self.printed.append(line.rstrip("\n"))
                if _JOIN.search(line) or "--print-join-command" in line:
                    return self
        finally:
            watchdog.cancel()
            watchdog.join()
        self.end(signal.SIGKILL)
        raise AssertionError(f"kubevouch up ended: {self.printed} {self.stderr}")

    @property
    def stderr(self) -> str:
        """Without what the loop monitor says, which is judged at the end."""
        return without_stalls((self.folder / "up.stderr").read_text())

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def printed_join(self) -> tuple[str, str, str, str]:
        """Address, token for discovery, token for authentication and pin as printed."""
        found = _JOIN.search(self.printed[-1])
        assert found is not None
        return found[1], found[2], found[3], found[4]

    @property
    def join_arguments(self) -> tuple[str, str, str]:
        """Address, a token for both as kubeadm makes it, and pin."""
        address, _, _, pin = self.printed_join
        if self.token is None:
            self.token = self._made_token()
        return address, self.token, pin

    def _made_token(self) -> str:
        """One that cluster-info is signed with when this returns, where something signs it."""
        token = generate_token()
        secret = to_secret(plan(token, now=SystemClock().now()))
        data = {key: value.decode() for key, value in secret.data.items()}
        tree = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": token.secret_name}, "type": secret.type,
            "stringData": data,
        }  # fmt: skip
        wire = Wire.of_kubeconfig(self.folder / "cluster/admin.conf", self.folder)
        with wire.kept_open() as kept:
            assert kept.json("POST", "/api/v1/namespaces/kube-system/secrets", tree).code == 201
            info = b""
            while f"jws-kubeconfig-{token.token_id}".encode() not in info:
                info = kept.request("GET", "/api/v1/namespaces/kube-public/configmaps/cluster-info").body
        return token.text

    @property
    def port(self) -> str:
        return self.printed_join[0].rpartition(":")[2]

    def join(self, *more: str, name: str = "worker-1") -> Ended:
        """Join a machine whose root is the folder of its name, over the loopback address."""
        _, discovery, authentication, pin = self.printed_join
        return kubevouch(
            "join", f"127.0.0.1:{self.port}", "--discovery-token", discovery, "--tls-bootstrap-token", authentication,
            "--discovery-token-ca-cert-hash", pin, "--node-name", name, "--rootfs", f"./{name}", *more, cwd=self.folder,
        )  # fmt: skip

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit status. Fails if something held the server's loop."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        # Under libfaketime a thread's processor clock cannot be read, and the monitor tells what the wall's says.
        if "LD_PRELOAD" not in self.variables:
            expect_no_stalls((self.folder / "up.stderr").read_text())
        return code

    def __enter__(self) -> Up:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.returncode is None:
            self.end(signal.SIGKILL)
