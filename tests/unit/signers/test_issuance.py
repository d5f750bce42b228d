"""signers/issuance.py and signers/interface.py: no certificate without an approval and a record."""

from __future__ import annotations

from typing import Any

import pytest

from asynctest import async_test
from controller_world import FIXTURES, NOW, fixture
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import x509_request
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Decision, Requester, UndecidedError, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

REQUESTER = Requester("system:bootstrap:abcdef")
APPROVAL = Approval("AutoApproved", "because")


class Records:
    def __init__(self) -> None:
        self.kept: list[str] = []

    def decided(self, decision: Decision) -> None:
        self.kept.append(f"decided {decision.wanted.name} for {decision.requester.username}")

    def issued(self, decision: Decision, certificate: Any) -> None:
        self.kept.append(f"issued {certificate.subject.common_name} by {decision.approval.reason}")

    def refused(self, requester: Requester, wanted: Wanted, why: str) -> None:
        self.kept.append(f"refused {wanted.name}: {why}")


def signer() -> FileSigner:
    return FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key")


def wanted(request: str = "client-good.csr") -> Wanted:
    parsed = x509_request.parse_pem(fixture(request))
    return Wanted("csr-1", "uid", KUBE_APISERVER_CLIENT_KUBELET_SIGNER, parsed, ["digital signature", "client auth"])


@async_test
async def test_a_record_stands_before_and_after_the_signature() -> None:
    records = Records()
    certificate = await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, records=records)
    assert certificate.subject.common_name == "system:node:n1"
    assert records.kept == ["decided csr-1 for system:bootstrap:abcdef", "issued system:node:n1 by AutoApproved"]


@async_test
async def test_nothing_is_signed_without_an_approval() -> None:
    records = Records()
    with pytest.raises(UndecidedError, match="csr-1 is not approved"):
        await issue(signer(), REQUESTER, None, wanted(), now=NOW, records=records)
    assert records.kept == []


@async_test
async def test_a_refusal_is_recorded() -> None:
    records = Records()
    with pytest.raises(PolicyError):
        await issue(signer(), REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, records=records)
    assert records.kept == ["refused csr-1: subject organization is not system:nodes"]


@async_test
async def test_a_record_that_cannot_be_kept_keeps_the_key_unused() -> None:
    class Full(Records):
        def decided(self, decision: Decision) -> None:
            raise OSError("disk full")

    records = Full()
    with pytest.raises(OSError, match="disk full"):
        await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, records=records)
    assert records.kept == []


@async_test
async def test_a_decision_cannot_be_made_elsewhere() -> None:
    with pytest.raises(UndecidedError):
        Decision(REQUESTER, APPROVAL, wanted(), SigningRules(), NOW, object())
    forged: Any = wanted()
    with pytest.raises(UndecidedError, match="got Wanted, expected a decision"):
        await signer().sign(forged)
