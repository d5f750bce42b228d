"""signers/issuance.py and signers/interface.py: no certificate without an approval and a record."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from structlog.testing import capture_logs

from asynctest import async_test
from controller_world import FIXTURES, NOW, fixture
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Decision, Requester, UndecidedError, Wanted
from kubevouch.signers.issuance import LogRecords, issue
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
        self.kept.append(f"refused {wanted.name} for {requester.username}: {why}")


def signer(profile: Profile = Profile.STRICT) -> FileSigner:
    return FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key", SigningRules(profile=profile))


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
    assert records.kept == ["refused csr-1 for system:bootstrap:abcdef: subject organization is not system:nodes"]


@async_test
async def test_the_signers_own_profile_counts() -> None:
    weak, records = wanted("client-good-p224.csr"), Records()
    with pytest.raises(PolicyError, match="ECDSA-P224 key has 224 bits"):
        await issue(signer(Profile.STRICT), REQUESTER, APPROVAL, weak, now=NOW, records=records)
    assert [kept.partition(":")[0] for kept in records.kept] == ["refused csr-1 for system"]
    assert await issue(signer(Profile.COMPATIBLE), REQUESTER, APPROVAL, weak, now=NOW, records=records)


@async_test
async def test_the_log_says_who_got_what_and_who_did_not() -> None:
    refused = {"csr": "csr-1", "uid": "uid", "signer": KUBE_APISERVER_CLIENT_KUBELET_SIGNER}
    with capture_logs() as lines:
        issued = await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, records=LogRecords())
        with pytest.raises(PolicyError):
            await issue(signer(), REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, records=LogRecords())
    by = {"requester": "system:bootstrap:abcdef"}
    assert lines == [
        {"event": "certificate allowed", "log_level": "debug", "csr": "csr-1"} | by,
        {
            "event": "certificate issued", "log_level": "info", "approval": "AutoApproved",
            "subject": "system:node:n1", "serial": f"{issued.serial:x}", "not_after": issued.not_after.isoformat(),
        } | refused | by,
        {
            "event": "certificate refused", "log_level": "info",
            "why": "subject organization is not system:nodes",
        } | refused | by,
    ]  # fmt: skip


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


@async_test
async def test_the_rules_hold_whatever_holds_the_key() -> None:
    """A signer that asks a service elsewhere signs what it is given."""

    class Willing:
        rules = SigningRules()

        def __init__(self) -> None:
            self.asked = 0

        async def sign(self, decision: Decision) -> Certificate:
            self.asked += 1
            return await signer().sign(decision)

    willing, records = Willing(), Records()
    with pytest.raises(PolicyError):
        await issue(willing, REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, records=records)
    assert willing.asked == 0 and [each.partition(" ")[0] for each in records.kept] == ["refused"]
    assert await issue(willing, REQUESTER, APPROVAL, wanted(), now=NOW, records=records)


@async_test
async def test_a_decision_that_was_changed_is_judged_again() -> None:
    """A copy keeps the seal."""

    class Keeping(Records):
        def decided(self, decision: Decision) -> None:
            self.decision = decision

    records = Keeping()
    await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, records=records)
    changed = dataclasses.replace(records.decision, wanted=wanted("client-wrong-org.csr"))
    with pytest.raises(PolicyError, match="subject organization is not system:nodes"):
        await signer().sign(changed)
