"""controllers/csr_signing.py and csr_approving.py: which conditions count."""

from __future__ import annotations

import pytest

from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from kubevouch.controllers.csr_approving import is_open
from kubevouch.controllers.csr_signing import approval_of, has_failed
from kubevouch.signers.interface import Approval


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
