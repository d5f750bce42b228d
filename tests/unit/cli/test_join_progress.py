"""``kubevouch join`` at a terminal: something moves while it waits, and nothing of it stays."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.reviews.csr_review import decide
from kubevouch.testing.cluster import Cluster

TURNING = re.compile(rb"\r\x1b\[K  \xe2\xa0. [0-9]+s")
CSRS = catalog.CERTIFICATE_SIGNING_REQUESTS


def joining(cluster: Cluster, root: Path) -> list[str]:
    address = cluster.url.removeprefix("https://")
    return [
        sys.executable, "-m", "kubevouch.cli.main", "join", address, "--token", cluster.token(),
        "--discovery-token-ca-cert-hash", cluster.pin, "--node-name", "worker-1", "--rootfs", str(root),
    ]  # fmt: skip


def test_time_passes_until_somebody_approves(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=("bootstrapsigner", "csrsigning"), real_time=True) as cluster:
        arguments = joining(cluster, tmp_path)
        cluster.settle()
        controller, terminal = pty.openpty()
        environment = os.environ | {"TERM": "xterm"}
        process = subprocess.Popen(arguments, stdout=terminal, stderr=terminal, stdin=terminal, env=environment)
        os.close(terminal)
        seen = b""
        try:
            while not (b"is not approved yet" in seen or b"waits" in seen) or not TURNING.search(seen):
                seen += os.read(controller, 4096)
            (request,) = cluster.run(cluster.client().list(CSRS)).items
            cluster.run(decide(cluster.client(), request, wellknown.CSR_APPROVED, "known"))
            while b"has joined" not in seen:
                seen += os.read(controller, 4096)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
            os.close(controller)
        # What was drawn is taken back before each line.
        for line in seen.split(b"\r\n"):
            kept = line.rpartition(b"\r\x1b[K")[2]
            assert not kept.startswith(b"  \xe2\xa0"), line


def test_nothing_moves_in_a_pipe(tmp_path: Path) -> None:
    with Cluster(https=True, controllers=("*",), real_time=True) as cluster:
        arguments = joining(cluster, tmp_path)
        cluster.settle()
        done = subprocess.run(arguments, capture_output=True, env=os.environ | {"TERM": "xterm"}, check=True)
    assert b"\x1b" not in done.stdout + done.stderr
