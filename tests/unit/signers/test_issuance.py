"""signers/issuance.py and signers/interface.py: no certificate without an approval and a record."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from asynctest import async_test
from controller_world import FIXTURES, NOW, fixture
from kubevouch.ledger.entries import DISCARDED, INTENDED, ISSUED, Entry, Query
from kubevouch.ledger.interface import LedgerOvertaken, LedgerUnavailable
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki.errors import PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Decision, Requester, UndecidedError, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.testing.logs import capture_logs
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

REQUESTER = Requester("system:bootstrap:abcdef")
APPROVAL = Approval("AutoApproved", "because")


class Records(MemoryLedger):
    """A ledger that tells what was appended, shortly."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    async def append(self, *added: Entry) -> int:
        self.kept += [f"{each.kind} {each.request} for {each.requester}: {each.message}" for each in added]
        return await super().append(*added)


def signer(profile: Profile = Profile.STRICT) -> FileSigner:
    return FileSigner(FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key", SigningRules(profile=profile))


class Watched:
    """Signs, and keeps what it was told."""

    rules = SigningRules()
    kind = "file"
    ends = None

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def chain_of(self, certificate: Certificate) -> tuple[Certificate, ...]:
        return (certificate,)

    async def sign(self, decision: Decision) -> Certificate:
        self.decisions.append(decision)
        return await signer().sign(decision)


def wanted(request: str = "client-good.csr") -> Wanted:
    parsed = x509_request.parse_pem(fixture(request))
    return Wanted("csr-1", "uid", KUBE_APISERVER_CLIENT_KUBELET_SIGNER, parsed, ["digital signature", "client auth"])


@async_test
async def test_a_record_stands_before_and_after_the_signature() -> None:
    records = Records()
    certificate = await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, ledger=records)
    assert certificate.subject.common_name == "system:node:n1"
    assert records.kept == [f"{kind} csr-1 for system:bootstrap:abcdef: because" for kind in ("intended", "issued")]


@async_test
async def test_nothing_is_signed_without_an_approval() -> None:
    records = Records()
    with pytest.raises(UndecidedError, match="csr-1 is not approved"):
        await issue(signer(), REQUESTER, None, wanted(), now=NOW, ledger=records)
    assert records.kept == []


@async_test
async def test_a_refusal_is_recorded() -> None:
    records = Records()
    with pytest.raises(PolicyError):
        await issue(signer(), REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, ledger=records)
    assert records.kept == ["failed csr-1 for system:bootstrap:abcdef: subject organization is not system:nodes"]


@async_test
async def test_the_signers_own_profile_counts() -> None:
    weak, records = wanted("client-good-p224.csr"), Records()
    with pytest.raises(PolicyError, match="ECDSA-P224 key has 224 bits"):
        await issue(signer(Profile.STRICT), REQUESTER, APPROVAL, weak, now=NOW, ledger=records)
    assert [kept.partition(":")[0] for kept in records.kept] == ["failed csr-1 for system"]
    assert await issue(signer(Profile.COMPATIBLE), REQUESTER, APPROVAL, weak, now=NOW, ledger=records)


@async_test
async def test_the_log_says_who_got_what_and_who_did_not() -> None:
    refused = {"csr": "csr-1", "uid": "uid", "signer": KUBE_APISERVER_CLIENT_KUBELET_SIGNER}
    with capture_logs() as lines:
        issued = await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, ledger=MemoryLedger())
        with pytest.raises(PolicyError):
            await issue(signer(), REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, ledger=MemoryLedger())
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
        async def append(self, *added: Entry) -> int:
            raise LedgerUnavailable("disk full")

    watched = Watched()
    with pytest.raises(LedgerUnavailable, match="disk full"):
        await issue(watched, REQUESTER, APPROVAL, wanted(), now=NOW, ledger=Full())
    assert watched.decisions == []


@async_test
async def test_whoever_is_overtaken_after_the_signature_records_a_certificate_that_nobody_gets() -> None:
    class Overtaken(Records):
        async def append(self, *added: Entry) -> int:
            if any(each.kind == ISSUED for each in added):
                raise LedgerOvertaken("another process was first")
            return await super().append(*added)

    records = Overtaken()
    with pytest.raises(LedgerOvertaken):
        await issue(signer(), REQUESTER, APPROVAL, wanted(), now=NOW, ledger=records)
    kept = [each.entry for each in await records.find(Query())]
    assert [each.kind for each in kept] == [INTENDED, DISCARDED]
    assert kept[1].serial
    assert kept[1].message == "another process was first"


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
    willing, records = Watched(), Records()
    with pytest.raises(PolicyError):
        await issue(willing, REQUESTER, APPROVAL, wanted("client-wrong-org.csr"), now=NOW, ledger=records)
    assert willing.decisions == [] and [each.partition(" ")[0] for each in records.kept] == ["failed"]
    assert await issue(willing, REQUESTER, APPROVAL, wanted(), now=NOW, ledger=records)


@async_test
async def test_a_decision_that_was_changed_is_judged_again() -> None:
    """A copy keeps the seal."""

    willing = Watched()
    await issue(willing, REQUESTER, APPROVAL, wanted(), now=NOW, ledger=MemoryLedger())
    changed = dataclasses.replace(willing.decisions[0], wanted=wanted("client-wrong-org.csr"))
    with pytest.raises(PolicyError, match="subject organization is not system:nodes"):
        await signer().sign(changed)
