"""Attested documents of Azure's metadata service."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

import evidence_cases
from evidence_cases import Case
from kubevouch.attestation.azure import attested_document
from kubevouch.attestation.azure.attested_document import AttestedData
from kubevouch.attestation.azure.evidence import Document
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.client_certificate import TrustAnchors
from node_cases import CASES, fixture

DOCUMENTS = [case for case in CASES if case["when"] == "verify attested document"]


def verified(document: Document, roots: str, nonce: str, subscriptions: list[str], now: dt.datetime) -> AttestedData:
    opened = attested_document.open_document(document)
    attested_document.verify_signer(opened, TrustAnchors.from_pem(roots.encode()), now=now)
    return attested_document.verify_content(opened.content, nonce=nonce, subscriptions=subscriptions, now=now)


@pytest.mark.parametrize("case", evidence_cases.of("azure-attested-document"))
def test_documents_that_real_tools_made(case: Case) -> None:
    def verify() -> None:
        document = Document(case.text("encoding"), case.text("signature"))
        said = verified(document, "".join(case.roots), case.nonce_text, case.given["subscriptions"], case.now)
        if said.vm_id != case.given["vm_id"]:
            raise RefusedEvidenceError("vm", "another machine")

    case.judge(verify)


@pytest.mark.parametrize("case", DOCUMENTS, ids=[case["id"] for case in DOCUMENTS])
def test_the_cases_of_other_attestation_systems(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]

    def verify() -> AttestedData:
        return verified(
            Document("pkcs7", given["signature"]),
            fixture(given["root"])["pem"],
            given["nonce"],
            given["subscriptions"],
            dt.datetime.fromisoformat(given["now"]),
        )

    if then["ok"]:
        said = verify()
        assert f"{said.subscription_id}/{said.vm_id}" == then["identity"]
        return
    with pytest.raises(RefusedEvidenceError) as caught:
        verify()
    steps = {"past expiresOn": "time", "subscription": "subscription", "nonce": "nonce"}
    assert caught.value.step == steps.get(then["why"], "signer")


NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"
GOOD: dict[str, Any] = {
    "licenseType": "",
    "nonce": "n" * 32,
    "plan": {"name": "", "product": "", "publisher": ""},
    "sku": "demo",
    "subscriptionId": SUBSCRIPTION,
    "timeStamp": {"createdOn": "03/01/31 11:58:00 -0000", "expiresOn": "03/01/31 17:58:00 -0000"},
    "vmId": "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee",
}


def changed(**claims: Any) -> bytes:
    return json.dumps({**GOOD, **claims}).encode()


def during(created: str, expires: str = "03/01/31 17:58:00 -0000") -> bytes:
    return changed(timeStamp={"createdOn": created, "expiresOn": expires})


@pytest.mark.parametrize(
    ("content", "step"),
    [
        (b"", "structure"),
        (b"{}", "structure"),
        (changed()[:-1] + b',"vmId":"x"}', "duplicate-key"),
        (changed() + b" x", "structure"),
        (changed(nonce=""), "nonce"),
        (changed(nonce="n" * 31), "nonce"),
        (changed(nonce="N" * 32), "nonce"),
        (changed(nonce="ñ" * 32), "nonce"),
        (changed(nonce=None), "structure"),
        (during("03/01/31 12:02:01 -0000"), "time"),
        (during("03/01/31 11:58:00 -0000", "03/01/31 11:59:59 -0000"), "time"),
        (during("03/01/31 11:58:00 +0000"), "time"),
        (during("2031-03-01T11:58:00Z"), "time"),
        (during("13/01/31 11:58:00 -0000"), "time"),
        (during("３/01/31 11:58:00 -0000"), "time"),
        (during("03/01/31 11:58:00 -0000\n"), "time"),
        (during(""), "time"),
        (changed(timeStamp={}), "structure"),
        (changed(subscriptionId="99999999-1111-2222-3333-444444444444"), "subscription"),
        (changed(subscriptionId=f"{SUBSCRIPTION} "), "subscription"),
        (changed(subscriptionId=""), "subscription"),
        (changed(vmId="node-z"), "claims"),
        (changed(vmId=f"{GOOD['vmId']}\n"), "claims"),
        (changed(vmId=7), "structure"),
    ],
)
def test_a_document_is_refused_at_the_step_that_fails(content: bytes, step: str) -> None:
    def verify(octets: bytes) -> AttestedData:
        return attested_document.verify_content(octets, nonce="n" * 32, subscriptions=[SUBSCRIPTION.upper()], now=NOW)

    assert verify(changed()).vm_id == "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
    with pytest.raises(RefusedEvidenceError) as caught:
        verify(content)
    assert caught.value.step == step


def test_no_document_is_for_no_nonce() -> None:
    with pytest.raises(RefusedEvidenceError):
        attested_document.verify_content(changed(nonce=""), nonce="", subscriptions=[SUBSCRIPTION], now=NOW)


def test_clocks_may_differ_by_two_minutes() -> None:
    attested_document.verify_content(
        during("03/01/31 12:02:00 -0000", "03/01/31 12:00:00 -0000"),
        nonce="n" * 32,
        subscriptions=[SUBSCRIPTION],
        now=NOW,
    )
