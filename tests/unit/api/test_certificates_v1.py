from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api import certificates_v1
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
    has_condition,
    validate_certificate_signing_request,
    validate_certificate_signing_request_approval_update,
    validate_certificate_signing_request_status_update,
    validate_certificate_signing_request_update,
    validate_signer_name,
)
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.times import Time

FIXTURES = Path(__file__).parents[2] / "vectors" / "fixtures-server"
REQUEST = (FIXTURES / "csr-alice.pem").read_bytes()
CERTIFICATE = (FIXTURES / "cert-worker-7.pem").read_bytes()

Condition = CertificateSigningRequestCondition
APPROVED = Condition(type="Approved", status="True")
DENIED = Condition(type="Denied", status="True")
FAILED = Condition(type="Failed", status="True")

GOOD = CertificateSigningRequest(
    spec=CertificateSigningRequestSpec(
        request=REQUEST, signer_name="example.com/widget", usages=["digital signature", "client auth"]
    )
)


def with_spec(**changes: Any) -> CertificateSigningRequest:
    return msgspec.structs.replace(GOOD, spec=msgspec.structs.replace(GOOD.spec, **changes))


def with_status(
    *conditions: Condition, certificate: bytes = b"", csr: CertificateSigningRequest = GOOD
) -> CertificateSigningRequest:
    status = CertificateSigningRequestStatus(conditions=list(conditions), certificate=certificate)
    return msgspec.structs.replace(csr, status=status)


def texts(problems: list[FieldError]) -> list[str]:
    return [str(problem) for problem in problems]


def faults(csr: CertificateSigningRequest) -> list[str]:
    return texts(validate_certificate_signing_request(csr))


def test_a_good_request() -> None:
    assert faults(GOOD) == []
    assert faults(with_spec(expiration_seconds=600)) == []


def test_json_and_its_order() -> None:
    csr = CertificateSigningRequest(
        spec=CertificateSigningRequestSpec(
            request=b"r", signer_name="a.b/c", usages=["any"], username="u", extra={"k": ["v"]}, expiration_seconds=600
        ),
        status=CertificateSigningRequestStatus(conditions=[Condition(type="Approved", status="True", reason="r")]),
    )
    assert json_codec.encode(csr) == (
        b'{"metadata":{},"spec":{"request":"cg==","signerName":"a.b/c","expirationSeconds":600,"usages":["any"],'
        b'"username":"u","extra":{"k":["v"]}},"status":{"conditions":[{"type":"Approved","status":"True","reason":"r",'
        b'"lastUpdateTime":null,"lastTransitionTime":null}]}}'
    )


def test_protobuf_wraps_extra_values() -> None:
    codec = protobuf.codec_for(CertificateSigningRequestSpec)
    spec = CertificateSigningRequestSpec(request=None, extra={"k": ["a", "b"], "e": []})
    assert codec.decode(codec.encode(spec)) == spec


def test_has_condition_looks_at_the_type_only() -> None:
    csr = with_status(Condition(type="Denied", status="False"))
    assert has_condition(csr, "Denied")
    assert not has_condition(csr, "Approved")


# ------------------------------------------------------------------ spec


def test_the_bad_request_is_printed_as_base64_and_null_as_null() -> None:
    bad = "PEM block type must be CERTIFICATE REQUEST"
    assert faults(with_spec(request=b"x")) == [f'spec.request: Invalid value: "eA==": {bad}']
    assert faults(with_spec(request=b"")) == [f'spec.request: Invalid value: "": {bad}']
    assert faults(with_spec(request=None)) == [f"spec.request: Invalid value: null: {bad}"]


@pytest.mark.parametrize(
    ("fixture", "fault"),
    [
        ("csr-new-label.pem", "PEM block type must be CERTIFICATE REQUEST"),
        ("csr-trailing-der.pem", "asn1: syntax error: trailing data"),
        ("csr-bad-signature.pem", "x509: ECDSA verification failure"),
    ],
)
def test_requests_that_do_not_hold(fixture: str, fault: str) -> None:
    request = (FIXTURES / fixture).read_bytes()
    encoded = base64.b64encode(request).decode()
    assert faults(with_spec(request=request)) == [f'spec.request: Invalid value: "{encoded}": {fault}']


SUPPORTED = (
    '"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", '
    '"decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", '
    '"ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", '
    '"server auth", "signing", "timestamping"'
)


def test_usages_are_told_unknown_ones_first_then_repeated_ones() -> None:
    assert faults(with_spec(usages=["<x>", "any", "<x>", "any"])) == [
        f'spec.usages[0]: Unsupported value: "\\u003cx\\u003e": supported values: {SUPPORTED}',
        f'spec.usages[2]: Unsupported value: "\\u003cx\\u003e": supported values: {SUPPORTED}',
        'spec.usages[2]: Duplicate value: "\\u003cx\\u003e"',
        'spec.usages[3]: Duplicate value: "any"',
    ]


def test_a_body_full_of_usages_is_not_told_in_full() -> None:
    assert len(faults(with_spec(usages=["x"] * 100_000))) < 1000


def test_all_faults_of_a_spec_are_told_in_order() -> None:
    csr = with_spec(request=b"", usages=[], signer_name="", expiration_seconds=599)
    assert [text.partition(": ")[0] for text in faults(csr)] == [
        "spec.request",
        "spec.usages",
        "spec.signerName",
        "spec.expirationSeconds",
    ]
    assert faults(csr)[-1] == (
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"
    )


# ------------------------------------------------------------------ signer names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
FULLY = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
TWO = "should be a domain with at least two segments separated by dots"


@pytest.mark.parametrize(
    "name",
    [
        "kubernetes.io/kube-apiserver-client-kubelet", "example.com/ns.my-signer", "1.2/3", "a.b/c.d.e",
        f"{'a' * 63}.b/{'c' * 63}", f"a.b/{'c' * 253}", "x--y.z/a-b",
    ],
)  # fmt: skip
def test_good_signer_names(name: str) -> None:
    assert validate_signer_name("f", name) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ["f: Required value"]),
        ("example.com", [f'f: Invalid value: "example.com": {FULLY}']),
        ("a.b/c/d", [f'f: Invalid value: "a.b/c/d": {FULLY}']),
        ("nodots/x", [f'f: Invalid value: "nodots": {TWO}']),
        ("a..B/x", [f'f: Invalid value: "a..B": validating label "": {LABEL}']),
        ("Ä/x", [f'f: Invalid value: "Ä": validating label "Ä": {LABEL}', f'f: Invalid value: "Ä": {TWO}']),
        ("a.b\n/x", [f'f: Invalid value: "a.b\\n": validating label "b\\n": {LABEL}']),
        (
            f"{'a' * 64}.b/x",
            [
                f'f: Invalid value: "{"a" * 64}.b": validating label "{"a" * 64}": must be no more than 63 characters',
            ],
        ),
    ],
)
def test_bad_signer_names(name: str, expected: list[str]) -> None:
    assert texts(validate_signer_name("f", name)) == expected


def test_the_path_is_of_subdomains() -> None:
    [text] = texts(validate_signer_name("f", "example.com/UPPER"))
    assert text.startswith('f: Invalid value: "UPPER": validating label "UPPER": a lowercase RFC 1123 subdomain must')
    [text] = texts(validate_signer_name("f", "example.com/"))
    assert text.startswith('f: Invalid value: "": validating label "": a lowercase RFC 1123 subdomain must')
    [text] = texts(validate_signer_name("f", f"a.b/{'c' * 254}"))
    assert text.endswith("must be no more than 253 characters")


def test_lengths_of_signer_names() -> None:
    domain = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}"
    longest = f"{domain}/{'n' * 63}.{'m' * 253}"
    assert len(longest) == certificates_v1.MAX_SIGNER_NAME == 571
    assert validate_signer_name("f", longest) == []
    assert texts(validate_signer_name("f", f"{domain}/{'n' * 64}.{'m' * 253}")) == [
        "f: Too long: may not be more than 571 bytes"
    ]
    assert texts(validate_signer_name("f", f"{domain}d/x")) == ["f: Too long: may not be more than 253 bytes"]


def test_a_hostile_signer_name_does_not_take_long() -> None:
    assert validate_signer_name("f", f"{'a' * 200_000}!/x")
    assert validate_signer_name("f", f"a.b/{'-' * 200_000}")


# ------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([APPROVED, FAILED, Condition(type="Own", status="Unknown")], []),
        (
            [Condition()],
            [
                "status.conditions[0].type: Required value",
                "status.conditions[0].status: Required value",
            ],
        ),
        (
            [APPROVED, APPROVED],
            ['status.conditions[1].type: Duplicate value: "Approved"'],
        ),
        (
            [Condition(type="Denied", status="Unknown"), APPROVED],
            [
                'status.conditions[0].status: Unsupported value: "Unknown": supported values: "True"',
                'status.conditions: Invalid value: "Approved": Approved and Denied conditions are mutually exclusive',
            ],
        ),
        (
            [Condition(type="Own", status="no")],
            ['status.conditions[0].status: Unsupported value: "no": supported values: "False", "True", "Unknown"'],
        ),
    ],
)
def test_conditions(conditions: list[Condition], expected: list[str]) -> None:
    assert faults(with_status(*conditions)) == expected


# ------------------------------------------------------------------ certificate

BAD_CERTIFICATE = 'status.certificate: Invalid value: "<certificate data>": '


@pytest.mark.parametrize(
    ("certificate", "fault"),
    [
        (b"x", "must contain at least one CERTIFICATE PEM block"),
        (b"-----BEGIN FOO-----\nAA==\n-----END FOO-----\n", 'only CERTIFICATE PEM blocks are allowed, found "FOO"'),
        (
            CERTIFICATE.replace(b"-----\n", b"-----\nA: b\n\n", 1),
            "no PEM block headers are permitted",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
            "found CERTIFICATE PEM block containing 0 certificates",
        ),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x509: malformed certificate"),
    ],
)
def test_bad_certificates(certificate: bytes, fault: str) -> None:
    assert faults(with_status(certificate=certificate)) == [f"{BAD_CERTIFICATE}{fault}"]


def test_good_certificates() -> None:
    assert faults(with_status(certificate=CERTIFICATE)) == []
    assert faults(with_status(certificate=b"text\n" + CERTIFICATE + b"text\n" + CERTIFICATE)) == []


# ------------------------------------------------------------------ updates

UPDATES = [
    validate_certificate_signing_request_update,
    validate_certificate_signing_request_approval_update,
    validate_certificate_signing_request_status_update,
]
MAIN, APPROVAL, STATUS = UPDATES


@pytest.mark.parametrize("validate", UPDATES)
def test_no_way_of_writing_removes_a_decision(validate: Any) -> None:
    for condition in (APPROVED, DENIED, FAILED):
        assert texts(validate(with_status(), with_status(condition))) == [
            f'status.conditions: Forbidden: updates may not remove a condition of type "{condition.type}"'
        ]


def test_who_may_add_what() -> None:
    def added(condition: Condition, validate: Any) -> list[str]:
        return texts(validate(with_status(condition), with_status()))

    for condition in (APPROVED, DENIED):
        refused = [f'status.conditions: Forbidden: updates may not add a condition of type "{condition.type}"']
        assert added(condition, APPROVAL) == []
        assert added(condition, STATUS) == refused
        assert added(condition, MAIN) == refused
    for validate in UPDATES:
        assert added(FAILED, validate) == []


def test_who_may_edit_a_decision() -> None:
    new = with_status(msgspec.structs.replace(APPROVED, reason="again", last_update_time=Time(1)))
    old = with_status(APPROVED)
    assert APPROVAL(new, old) == []
    for validate in (MAIN, STATUS):
        assert texts(validate(new, old)) == [
            'status.conditions: Forbidden: updates may not modify a condition of type "Approved"'
        ]


def test_who_may_set_the_certificate() -> None:
    new, old = with_status(certificate=CERTIFICATE), with_status()
    assert STATUS(new, old) == []
    for validate in (MAIN, APPROVAL):
        assert texts(validate(new, old)) == ["status.certificate: Forbidden: updates may not set certificate content"]


def test_a_certificate_is_set_once() -> None:
    old = with_status(certificate=CERTIFICATE)
    kept = "status.certificate: Forbidden: updates may not modify existing certificate content"
    assert texts(STATUS(with_status(), old)) == [kept]
    assert texts(STATUS(with_status(certificate=CERTIFICATE + b"\n"), old)) == [kept]
    assert STATUS(old, old) == []


def test_stored_faults_may_stay() -> None:
    stored = msgspec.structs.replace(
        with_status(APPROVED, DENIED, DENIED, Condition(type="", status="True"), certificate=b"no certificate"),
        spec=msgspec.structs.replace(
            GOOD.spec, signer_name="kubernetes.io/legacy-unknown", usages=["teleportation", "any", "any"]
        ),
    )
    assert len(faults(stored)) == 8
    for validate in UPDATES:
        assert validate(stored, stored) == []


def test_faults_that_no_stored_object_excuses() -> None:
    stored = msgspec.structs.replace(GOOD, spec=CertificateSigningRequestSpec(request=b"x", expiration_seconds=1))
    assert [text.partition(": ")[0] for text in texts(MAIN(stored, stored))] == [
        "spec.request",
        "spec.usages",
        "spec.signerName",
        "spec.expirationSeconds",
    ]


def test_a_bad_stored_certificate_excuses_a_bad_new_one() -> None:
    old = with_status(certificate=b"bad")
    kept = "status.certificate: Forbidden: updates may not modify existing certificate content"
    assert texts(STATUS(with_status(certificate=b"worse"), old)) == [kept]
    assert texts(STATUS(with_status(certificate=b"bad"), with_status())) == [
        f"{BAD_CERTIFICATE}must contain at least one CERTIFICATE PEM block"
    ]
