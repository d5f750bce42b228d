"""What a server under attack looks like from outside, twice a second: /proc, its folder, and a new client's wait."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from pathlib import Path

import msgspec

from cluster import Cluster

EVERY_SECONDS = 0.5
PROBE_TIMEOUT_SECONDS = 60.0
# Of the server's own monitor: ten lines at once and one every ten seconds. All stalls are counted in its metrics.
_STALL = re.compile(rb'"event loop held" seconds=([0-9.]+)')


class Sample(msgspec.Struct, frozen=True):
    """``at``: seconds since the abuse began. ``latency_ms``: of new clients' /livez that ended or went on since the
    sample before, the longest. ``stall_ms``: for how long the loop was held since then, as far as the log says."""

    at: float
    rss_mib: float
    descriptors: int
    latency_ms: float
    refused: int
    stall_ms: float
    disk_mib: float


class Probe(threading.Thread):
    """A new client at a time: a connection of its own, its handshake, ``GET /livez``, from the usual address."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="probe")
        self._address = (cluster.host, cluster.port)
        self._context = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._longest = 0.0
        self._refused = 0
        self._begun: float | None = None

    def run(self) -> None:
        while not self._ended.wait(EVERY_SECONDS / 2):
            begun = time.perf_counter()
            with self._lock:
                self._begun = begun
            answered = self._ask()
            with self._lock:
                self._begun = None
                self._longest = max(self._longest, time.perf_counter() - begun)
                self._refused += not answered

    def _ask(self) -> bool:
        try:
            with (
                socket.create_connection(self._address, PROBE_TIMEOUT_SECONDS) as plain,
                self._context.wrap_socket(plain, server_hostname=self._address[0]) as secured,
            ):
                secured.sendall(b"GET /livez HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                return secured.recv(65536).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False

    def end(self) -> None:
        self._ended.set()

    def taken(self) -> tuple[float, int]:
        """The longest wait in seconds since the last call, and how many got no answer."""
        with self._lock:
            pending = 0.0 if self._begun is None else time.perf_counter() - self._begun
            found = max(self._longest, pending), self._refused
            self._longest, self._refused = 0.0, 0
            return found


class Sampler(threading.Thread):
    """Samples until it is ended. ``given_up`` says why the attack has to be broken off; empty while it need not."""

    def __init__(self, cluster: Cluster, most_rss_mib: float) -> None:
        super().__init__(name="sampler")
        self.samples: list[Sample] = []
        self.given_up = ""
        self._cluster = cluster
        self._most_rss_mib = most_rss_mib
        self._log = cluster.data_dir.with_suffix(".log")
        self._read = self._log.stat().st_size
        self._ended = threading.Event()
        self._zero = time.perf_counter()
        self._probe = Probe(cluster)

    def run(self) -> None:
        self._probe.start()
        try:
            while not self._ended.wait(EVERY_SECONDS):
                sample = self._sample()
                self.samples.append(sample)
                if sample.rss_mib > self._most_rss_mib:
                    self.given_up = f"more than {self._most_rss_mib:.0f} MiB"
                elif sample.latency_ms >= PROBE_TIMEOUT_SECONDS * 1000:
                    self.given_up = f"no answer for {PROBE_TIMEOUT_SECONDS:.0f} s"
        except (FileNotFoundError, ProcessLookupError):
            self.given_up = "the server has ended"
        self._probe.end()

    def zero(self) -> None:
        """The abuse begins now."""
        shift = time.perf_counter() - self._zero
        self.samples = [msgspec.structs.replace(sample, at=sample.at - shift) for sample in self.samples]
        self._zero += shift

    @property
    def seconds(self) -> float:
        """Since the abuse began."""
        return time.perf_counter() - self._zero

    def end(self) -> list[Sample]:
        self._ended.set()
        self.join()
        return self.samples

    def _sample(self) -> Sample:
        latency, refused = self._probe.taken()
        held = self._held()
        files = [file for file in self._cluster.data_dir.rglob("*") if file.is_file()]
        disk = sum(_blocks(file) for file in files) * 512 / 1024**2
        descriptors = sum(1 for _ in Path(f"/proc/{self._cluster.pid}/fd").iterdir())
        rss, longest = self._cluster.rss_mib(), max(held, default=0.0)
        return Sample(self.seconds, rss, descriptors, latency * 1000, refused, longest, disk)

    def _held(self) -> list[float]:
        """Milliseconds of each stall that the server has written to its log since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written = log.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        return [1000 * float(found) for found in _STALL.findall(whole)]


def _blocks(file: Path) -> int:
    try:
        return file.stat().st_blocks
    except FileNotFoundError:  # SQLite removes its journal
        return 0
