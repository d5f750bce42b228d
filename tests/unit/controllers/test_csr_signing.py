"""controllers/csr_signing.py and csr_approving.py: which conditions count."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import FIXTURES, NOW, fixture, world
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import Client
from kubevouch.controllers import csr_signing
from kubevouch.controllers.csr_approving import is_open
from kubevouch.controllers.csr_signing import approval_of, has_failed
from kubevouch.controllers.interface import Context
from kubevouch.controllers.manager import Manager
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval
from kubevouch.signers.registry import Signers
from kubevouch.standalone.controllers import RunningControllers, controller_user
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER


def _csr(*types: str, status: str = "True", certificate: bytes = b"") -> CertificateSigningRequest:
    conditions = [
        CertificateSigningRequestCondition(type=kind, status=status, reason="R", message="m") for kind in types
    ]
    return CertificateSigningRequest(
        status=CertificateSigningRequestStatus(conditions=conditions, certificate=certificate)
    )


@pytest.mark.parametrize("status", ["True", "False", ""])
def test_an_approval_counts_whatever_its_status(status: str) -> None:
    assert approval_of(_csr("Approved", status=status)) == Approval("R", "m")
    assert not is_open(_csr("Approved", status=status))


@pytest.mark.parametrize("types", [(), ("Denied",), ("Approved", "Denied"), ("Denied", "Approved"), ("Failed",)])
def test_without_an_approval_or_with_a_denial_nothing_is_signed(types: tuple[str, ...]) -> None:
    assert approval_of(_csr(*types)) is None


@pytest.mark.parametrize(("status", "failed"), [("True", True), ("", True), ("False", False), ("Unknown", False)])
def test_a_failure_counts_when_it_is_true_or_empty(status: str, failed: bool) -> None:
    assert has_failed(_csr("Approved", "Failed", status=status)) is failed
    assert not has_failed(_csr("Other"))


def test_a_failure_alone_leaves_a_request_open_and_a_certificate_closes_it() -> None:
    assert is_open(_csr("Failed"))
    assert not is_open(_csr(certificate=b"x"))


@async_test
async def test_requests_that_waited_for_a_signer_are_signed_when_it_comes() -> None:
    async with world() as at:
        at_once = Time.of(NOW)
        condition = CertificateSigningRequestCondition(
            type="Approved", status="True", last_update_time=at_once, last_transition_time=at_once
        )
        spec = CertificateSigningRequestSpec(
            request=fixture("client-good.csr"),
            signer_name=KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            usages=["digital signature", "client auth"],
        )
        csr = CertificateSigningRequest(
            metadata=ObjectMeta(name="a", uid="1"),
            spec=spec,
            status=CertificateSigningRequestStatus(conditions=[condition]),
        )
        await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)

        def connect(name: str) -> Client:
            return at.server.api.loopback(controller_user(name), name)

        informers = InformerFactory(connect("informers"), at.clock)
        signers = Signers()
        controller = csr_signing.build(Context(connect, informers, at.clock, signers=signers))
        running = RunningControllers(at.server, Manager([controller], informers, at.clock))
        await running.settle()
        assert not (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "a")).status.certificate
        signers.put(csr.spec.signer_name, FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key"))
        await running.settle()
        assert (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "a")).status.certificate
        await running.close()
