"""Documents that openssl has signed as AWS does, and what must not come of them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import evidence_cases
from cloud_servers import aws
from evidence_cases import Case
from kubevouch.attestation.aws.evidence import Form
from kubevouch.attestation.aws.identity_document import MAX_DOCUMENT, Certificates, Document, verify_document
from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate

NOW = dt.datetime(2026, 11, 22, 6, tzinfo=dt.UTC)
NODE_CASES = [
    json.loads(line) for line in (Path(__file__).parents[3] / "vectors" / "node.jsonl").read_text().splitlines()
]
FIXTURES = {each["id"]: each["given"] for each in NODE_CASES if each["area"] == "fixtures"}
DOCUMENTS = [each for each in NODE_CASES if each["when"] == "verify identity document"]


def certificates(known: Collection[tuple[str, str, str]]) -> Certificates:
    parsed = [(region, form, x509_certificate.parse_pem(pem.encode())) for region, form, pem in known]

    def found(region: str, form: Form) -> list[Certificate]:
        return [each for its_region, its_form, each in parsed if (its_region, its_form) == (region, form)]

    return found


@pytest.mark.parametrize("case", evidence_cases.of("aws-iid"))
def test_documents_of_openssl(case: Case) -> None:
    form = next(each for each in Form if each in case.given)
    roots = certificates([(each["region"], each["form"], each["pem"]) for each in case.roots])

    def judged() -> None:
        document, accounts = case.octets("document"), case.given["accounts"]
        told = verify_document(document, form, case.text(form), roots, accounts=accounts, now=case.now)
        assert told.instance_id == case.given["instance_id"]

    case.judge(judged)


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda each: each["id"])
def test_documents_of_the_cases(case: dict[str, Any]) -> None:
    """Those with an answer of EC2 are good here: test_instances judges them."""
    given = case["given"]
    roots = certificates([(region, "rsa2048", pem) for region, pem in FIXTURES[given["certs"]].items()])
    now = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)

    def judged() -> Document:
        document, signature = given["document"].encode(), given["rsa2048"]
        return verify_document(document, Form.RSA2048, signature, roots, accounts=given["accounts"], now=now)

    if case["then"]["ok"] or {"describe_instances", "root_attach"} & given.keys():
        assert judged().identity == f"111122223333/{json.loads(given['document'])['region']}/i-0abc0000000000007"
    else:
        with pytest.raises(RefusedEvidenceError):
            judged()


def judge(
    document: str,
    signature: str | None = None,
    *,
    form: Form = Form.RSA2048,
    forms: Collection[Form] = tuple(Form),
    regions: Collection[str] = ("eu-west-1",),
    now: dt.datetime = NOW,
) -> Document:
    roots = certificates([(each, form, aws.region_certificate("eu-west-1")) for each in regions])
    signed = aws.signed_document(document, "eu-west-1") if signature is None else signature
    return verify_document(document.encode(), form, signed, roots, accounts=["111122223333"], forms=forms, now=now)


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(aws.Instance().document()), **fields})


def test_a_document_tells_the_machine() -> None:
    told = judge(aws.Instance().document())
    assert told.identity == "111122223333/eu-west-1/i-0abc000000000000a"
    assert told.provider_id == "aws:///eu-west-1a/i-0abc000000000000a"
    assert (told.private_ip, told.pending_time) == ("10.0.0.17", dt.datetime(2026, 11, 22, 5, 40, tzinfo=dt.UTC))
    assert judge(changed(availabilityZone="")).provider_id == ""
    bare = aws.bare_signature(aws.Instance().document(), "eu-west-1")
    assert judge(aws.Instance().document(), bare, form=Form.SIGNATURE) == told


REFUSED = {
    "another account": (changed(accountId="999900001111"), "account"),
    "an account with a letter": (changed(accountId="11112222333٣"), "structure"),
    "an unknown region": (changed(region="eu-west-2"), "region"),
    "a path for a region": (changed(region="../eu-west-1"), "region"),
    "a region with a line feed": (changed(region="eu-west-1\n"), "region"),
    "a region in capitals": (changed(region="EU-WEST-1"), "region"),
    "a path for an instance": (changed(instanceId="i-0abc000000000000a/../b"), "structure"),
    "an instance with a line feed": (changed(instanceId="i-0abc000000000000a\n"), "structure"),
    "a zone of two words": (changed(availabilityZone="eu-west-1a x"), "structure"),
    "a number for an account": (changed(accountId=111122223333), "structure"),
    "no instance": (json.dumps({"accountId": "111122223333", "region": "eu-west-1"}), "structure"),
    "no object": ("[]", "structure"),
    "no JSON": ("instance", "structure"),
    "a name twice": (aws.Instance().document().replace("{", '{"accountId": "1",', 1), "duplicate-key"),
    "too long": (changed(imageId="x" * MAX_DOCUMENT), "size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_document_that_aws_signs_is_refused(case: str) -> None:
    document, step = REFUSED[case]
    with pytest.raises(RefusedEvidenceError) as refused:
        judge(document)
    assert refused.value.step == step


def test_signatures_that_do_not_hold_it() -> None:
    document = aws.Instance().document()
    other = aws.signed_document(changed(instanceId="i-0bad0000000000009"), "eu-west-1")
    bare = aws.bare_signature(document, "eu-west-1")
    for signature, form, step in (
        (other, Form.RSA2048, "content"),
        (aws.signed_document(document, "eu-west-2"), Form.RSA2048, "signature"),
        (aws.bare_signature(document + " ", "eu-west-1"), Form.SIGNATURE, "signature"),
        (aws.signed_document(document, "eu-west-1"), Form.SIGNATURE, "signature"),
        (bare, Form.RSA2048, "structure"),
        (bare + "=", Form.SIGNATURE, "structure"),
        ("é" * 8, Form.SIGNATURE, "structure"),
        ("AAAA" * 7000, Form.RSA2048, "size"),
        ("", Form.RSA2048, "structure"),
    ):
        with pytest.raises(RefusedEvidenceError) as refused:
            judge(document, signature, form=form)
        assert refused.value.step == step


def test_what_the_settings_leave_out_does_not_count() -> None:
    document = aws.Instance().document()
    with pytest.raises(RefusedEvidenceError, match=r"^form: got the form rsa2048, expected pkcs7"):
        judge(document, forms=[Form.PKCS7])
    with pytest.raises(RefusedEvidenceError, match=r"^region"):
        judge(document, regions=[])
    with pytest.raises(RefusedEvidenceError, match=r"^validity"):
        judge(document, now=dt.datetime(2121, 1, 1, tzinfo=dt.UTC))
