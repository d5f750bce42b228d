"""controllers/csr_signing.py: what becomes of requests while what has the key is away."""

from __future__ import annotations

import os
from pathlib import Path

from asynctest import async_test
from controller_world import FIXTURES, NOW, World, fixture, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS, EVENTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.controllers.csr_signing import UNAVAILABLE_REASON
from kubevouch.ledger import entries
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import x509_request
from kubevouch.signers.catalog import PairFiles, SigningOptions
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import UNAVAILABLE_RETRY_SECONDS
from kubevouch.standalone.sign import SigningServer, SignRules, listening
from kubevouch.testing.clock import settle
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from signer_worlds import Trusting

SIGNER = KUBE_APISERVER_CLIENT_KUBELET_SIGNER
USAGES = ["digital signature", "client auth"]


async def put(at: World, name: str) -> None:
    condition = CertificateSigningRequestCondition(
        type="Approved", status="True", last_update_time=Time.of(NOW), last_transition_time=Time.of(NOW)
    )
    spec = CertificateSigningRequestSpec(
        request=fixture("client-good.csr"), signer_name=SIGNER, usages=USAGES, username="system:bootstrap:abcdef"
    )
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=Time.of(NOW)),
        spec=spec,
        status=CertificateSigningRequestStatus(conditions=[condition]),
    )
    await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)


@async_test
async def test_requests_wait_for_a_signer_that_is_away_and_say_so(tmp_path: Path) -> None:
    async with world() as at:
        await put(at, "a")
        options = SigningOptions(PairFiles(str(FIXTURES / "ca-ec.crt")), socket=tmp_path / "s", clock=at.clock)
        running = await at.run("csrsigning", signing=options)
        at.clock.advance(UNAVAILABLE_RETRY_SECONDS)
        await settle()
        await running.settle()
        (event,) = (await at.client.list(EVENTS, "default")).items
        assert (event.reason, event.involved_object.name, event.count or 1) == (UNAVAILABLE_REASON, "a", 1)
        assert "no signing process answers on" in event.message
        ledger = MemoryLedger()
        asked = x509_request.parse_pem(fixture("client-good.csr"))
        await ledger.append(
            entries.entry_of_request(
                entries.APPROVED, NOW, asked, name="a", uid="uid-a", signer=SIGNER, requester="r", usages=USAGES
            )
        )
        signers = {SIGNER: FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key")}
        server = SigningServer(signers, ledger, Trusting(), SignRules(frozenset({os.geteuid()})), at.clock)
        async with listening(server, tmp_path / "s"):
            at.clock.advance(UNAVAILABLE_RETRY_SECONDS)
            await settle()
            await running.settle()
        csr = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "a")
        assert csr.status.certificate
        metrics = at.server.api.metrics.registry
        labels = {"signer": SIGNER, "kind": "process"}
        assert metrics.get_sample_value("kubevouch_signatures_total", {**labels, "outcome": "unavailable"}) == 2
        assert metrics.get_sample_value("kubevouch_signatures_total", {**labels, "outcome": "issued"}) == 1
        assert metrics.get_sample_value("kubevouch_signature_seconds_count", labels) == 1
