"""``python -m kubevouch.demo``: a cluster comes up in a temporary directory, and three machines join over real TLS."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from kubevouch.agent.csr_wait import approval_of
from kubevouch.agent.discovery import token_discovery
from kubevouch.agent.interface import Step
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.cli import ui
from kubevouch.cli.main import guarded
from kubevouch.cli.runner import run_async
from kubevouch.client.rest_config import client_from_kubeconfig
from kubevouch.phases.join import Joined, JoinOptions, join
from kubevouch.pki.x509 import x509_certificate
from kubevouch.standalone.options import StandaloneOptions
from kubevouch.standalone.up import Running, running
from kubevouch.util import logs
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.printable import shortened

MACHINES = ("worker-1", "worker-2", "worker-3")
HOST = "127.0.0.1"
# It is also the picture of the README, in which a wider line would make all letters small.
_COLUMNS, _STEP = 90, 42
_DETAIL = _COLUMNS - len("  ✓ ") - _STEP - len("   ")


class Narrator:
    """Tells the steps of one machine."""

    def __init__(self, *, tells: bool) -> None:
        self._tells = tells

    def done(self, step: Step, detail: str = "") -> None:
        if self._tells:
            told = "" if step is Step.KEY_MADE or step is Step.WRITTEN else shortened(detail, _DETAIL)
            ui.step(f"{step.value:<{_STEP}}", told)

    def waiting(self, why: str) -> None:
        """Nothing that takes long enough to be told."""

    def warning(self, text: str) -> None:
        ui.warning(text)


async def demo(folder: Path, clock: Clock) -> None:
    """The whole of it, in ``folder``."""
    options = StandaloneOptions(data_dir=folder / "cluster", bind_address=HOST, secure_port=0)
    async with running(options, clock) as cluster:
        ui.say(ui.styled(f"a cluster came up in {cluster.started.total_seconds():.1f} s", bold=True))
        ui.field("API server", cluster.endpoint.url)
        assert cluster.tokens is not None  # the first start has just made them
        tokens = cluster.tokens
        for name, token in (("discovery", tokens.discovery), ("authentication", tokens.authentication)):
            ui.field(name, f"{token.token_id}.{'•' * 16}")
        ui.field("CA pin", cluster.pin)
        ui.say()
        ui.say(ui.styled(f"{MACHINES[0]} joins", bold=True))
        joined = [await _join(cluster, MACHINES[0], folder, clock, tells=True)]
        begun = clock.monotonic()
        joined += await asyncio.gather(*(_join(cluster, name, folder, clock, tells=False) for name in MACHINES[1:]))
        ui.say()
        seconds = clock.monotonic() - begun
        ui.say(ui.styled(f"{', '.join(MACHINES[1:])} join together", bold=True), f" in {seconds * 1000:.0f} ms")
        ui.say()
        rows = [await _row(cluster, each) for each in joined]
        header = ("MACHINE", "REQUEST", "APPROVED BY", "VALID UNTIL")
        ui.lines(ui.table(header, [row[:4] for row in rows], columns=_COLUMNS))
        ui.say()
        ui.say(f"why: {rows[0][4]}")


async def _join(cluster: Running, name: str, folder: Path, clock: Clock, *, tells: bool) -> Joined:
    assert cluster.tokens is not None
    discovery = token_discovery(cluster.endpoint.address, cluster.tokens.discovery.text, [cluster.pin])
    options = JoinOptions(discovery, name, folder / name, tls_bootstrap_token=cluster.tokens.authentication)
    return await join(options, clock, Narrator(tells=tells))


async def _row(cluster: Running, joined: Joined) -> tuple[str, str, str, str, str]:
    """What the machine itself sees with its new certificate, and what the cluster keeps about it."""
    node = client_from_kubeconfig(joined.kubelet_conf, component="demo")
    try:
        review = await node.create(catalog.SELF_SUBJECT_REVIEWS, catalog.SELF_SUBJECT_REVIEWS.type())
    finally:
        await node.close()
    machine = review.status.user_info.username
    csr = await _request_of(cluster, machine)
    who, why = approval_of(csr)
    return machine, csr.metadata.name, who, f"{joined.not_after:%Y-%m-%d %H:%M} UTC", why


async def _request_of(cluster: Running, machine: str) -> CertificateSigningRequest:
    for csr in (await cluster.server.client.list(catalog.CERTIFICATE_SIGNING_REQUESTS)).items:
        issued = x509_certificate.parse_bundle(csr.status.certificate)
        if issued[0].subject.common_name == machine:
            return csr
    raise LookupError(f"no request of {machine}")


def main() -> int:
    """Returns the exit code."""
    clock = SystemClock()
    logs.configure(clock, level="error")
    with tempfile.TemporaryDirectory(prefix="kubevouch-demo-") as folder:
        return guarded(lambda: run_async(demo(Path(folder), clock)))


if __name__ == "__main__":
    sys.exit(main())
