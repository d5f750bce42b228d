"""pki/issued_elsewhere.py: whatever another CA answers with, only what was asked for is taken."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority, cross_sign
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import IssuedMismatchError, PolicyError
from kubevouch.pki.issued_elsewhere import CLOCKS_DIFFER, Expectation, verify_copyable, verify_issued_elsewhere
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import certificate_extensions, der, pem, subject_alt_names, x509_certificate, x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import COMMON_NAME, ORGANIZATION, SERIAL_NUMBER, USER_UID, Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import EXTENDED_KEY_USAGES, resolve
from kubevouch.pki.x509.x509_request import CertificateRequest

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
_KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
KEY = keys.public_key_of(_KEY)
OTHER = keys.public_key_of(keys.generate(KeyAlgorithm.ECDSA_P256))
NAMES = SubjectAltNames(dns_names=("a.example", "b.example"))


def authority(name: str = "ca") -> CertificateAuthority:
    return create_authority(name, keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW - 24 * HOUR)


CA = authority()
ANCHORS = TrustAnchors([CA.certificate])
EXPECTED = Expectation(
    public_key=KEY,
    subject=Subject(common_name="a.example", organizations=("team",)),
    alt_names=NAMES,
    usages=resolve(["digital signature", "server auth"]),
    not_after=NOW + 2 * HOUR,
)
TEMPLATE = CertificateTemplate(
    serial=7,
    subject=EXPECTED.subject,
    public_key=KEY,
    not_before=NOW - HOUR,
    not_after=NOW + HOUR,
    usages=EXPECTED.usages,
    alt_names=NAMES,
)


def answer(by: CertificateAuthority = CA, **changes: Any) -> bytes:
    return pem.encode(pem.CERTIFICATE, by.sign(msgspec.structs.replace(TEMPLATE, **changes)))


def test_what_was_asked_for_is_taken_with_what_came_behind_it() -> None:
    intermediate = authority("issuing")
    link = cross_sign(CA, intermediate.certificate, now=NOW - HOUR)
    chain = verify_issued_elsewhere(answer(intermediate) + link.pem(), EXPECTED, ANCHORS, now=NOW)
    assert [each.subject.common_name for each in chain] == ["a.example", "issuing"]


def test_what_many_cas_do_is_no_difference() -> None:
    """Another serial number and beginning, key encipherment, an end that is rounded up, names in upper case."""
    text = answer(
        serial=1 << 150,
        not_before=NOW + CLOCKS_DIFFER,
        not_after=NOW + 2 * HOUR + CLOCKS_DIFFER,
        usages=resolve(["digital signature", "key encipherment", "server auth"]),
        alt_names=SubjectAltNames(dns_names=("B.example", "A.example")),
    )
    assert verify_issued_elsewhere(text, EXPECTED, ANCHORS, now=NOW)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"public_key": OTHER}, "another public key"),
        ({"subject": Subject(common_name="a.example")}, "subject common_name \"a.example\", allowed"),
        ({"subject": Subject(common_name="a.example", organizations=("team", "system:masters"))}, "system:masters"),
        ({"alt_names": SubjectAltNames(dns_names=("a.example",))}, 'DNS name "b.example" is missing'),
        (
            {"alt_names": SubjectAltNames(dns_names=(*NAMES.dns_names, "c.example"))},
            'DNS name "c.example" was not asked for',
        ),
        (
            {"alt_names": SubjectAltNames(dns_names=NAMES.dns_names, ip_addresses=subject_alt_names.NONE.ip_addresses,
                                          email_addresses=("x@y",))},
            'e-mail address "x@y" was not asked for',
        ),
        ({"is_ca": True}, "it is a CA"),
        ({"usages": resolve(["cert sign", "server auth"])}, r"key usage bits \[5\]"),
        ({"usages": resolve(["digital signature", "client auth"])}, "extended key usages .* are missing"),
        ({"usages": resolve(["digital signature", "server auth", "client auth"])}, "were not asked for"),
        ({"not_after": NOW + 3 * HOUR}, "allowed until"),
        ({"not_after": NOW - CLOCKS_DIFFER}, "and it is"),
        ({"not_before": NOW + HOUR}, "not before"),
    ],
)  # fmt: skip
def test_what_was_not_asked_for_is_told(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(IssuedMismatchError, match=why):
        verify_issued_elsewhere(answer(**changes), EXPECTED, ANCHORS, now=NOW)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lambda: b"", "does not parse"),
        (lambda: b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "only CERTIFICATE PEM blocks"),
        (lambda: answer(authority()), "no way to a trusted CA"),
        (
            lambda: answer() + b"".join(authority(str(number)).certificate.pem() for number in range(9)),
            "9 certificates",
        ),
        (lambda: CA.certificate.pem(), "another public key"),
    ],
)
def test_what_is_no_chain_to_a_trusted_ca_is_told(text: Callable[[], bytes], why: str) -> None:
    with pytest.raises(IssuedMismatchError, match=why):
        verify_issued_elsewhere(text(), EXPECTED, ANCHORS, now=NOW)


CLIENT_AUTH = EXTENDED_KEY_USAGES["client auth"]


def test_a_usage_that_is_tolerated_may_come_along() -> None:
    text = answer(usages=resolve(["digital signature", "server auth", "client auth"]))
    tolerant = msgspec.structs.replace(EXPECTED, tolerated=frozenset({CLIENT_AUTH}))
    assert verify_issued_elsewhere(text, tolerant, ANCHORS, now=NOW)


@pytest.mark.parametrize("subject", [Subject(), Subject(common_name="b.example"), Subject(common_name="A.example")])
def test_a_subject_that_says_nothing_is_taken_from_who_validates_names(subject: Subject) -> None:
    own = msgspec.structs.replace(EXPECTED, own_subject=True)
    assert verify_issued_elsewhere(answer(subject=subject), own, ANCHORS, now=NOW)


@pytest.mark.parametrize(
    "subject",
    [Subject(common_name="system:admin"), Subject(common_name="a.example", organizations=("team",))],
)
def test_a_subject_that_says_who_somebody_is_comes_from_nobody_who_validates_names(subject: Subject) -> None:
    own = msgspec.structs.replace(EXPECTED, own_subject=True)
    with pytest.raises(IssuedMismatchError, match="allowed none or one of the names"):
        verify_issued_elsewhere(answer(subject=subject), own, ANCHORS, now=NOW)


def _name(*attributes: tuple[str, str]) -> bytes:
    """A Name in DER, each attribute in an RDN of its own."""
    rdns = [
        der.encode_set([der.encode(der.SEQUENCE, der.encode_object_identifier(oid), _utf8(value))])
        for oid, value in attributes
    ]
    return der.encode(der.SEQUENCE, *rdns)


def _utf8(value: str) -> bytes:
    return der.encode(der.UTF8_STRING, value.encode())


@pytest.mark.parametrize(
    "attributes",
    [
        [(COMMON_NAME, "system:admin"), (COMMON_NAME, "a.example"), (ORGANIZATION, "team")],
        [(COMMON_NAME, "a.example"), (COMMON_NAME, "a.example"), (ORGANIZATION, "team")],
        [(COMMON_NAME, "a.example"), (ORGANIZATION, "team"), (ORGANIZATION, "team")],
        [(SERIAL_NUMBER, "7"), (SERIAL_NUMBER, ""), (COMMON_NAME, "a.example"), (ORGANIZATION, "team")],
        [(COMMON_NAME, "a.example"), (ORGANIZATION, "team"), (USER_UID, "1")],
        [(COMMON_NAME, "a.example"), (ORGANIZATION, "team"), ("0.9.2342.19200300.100.1.25", "example")],
    ],
)
def test_every_value_of_a_subject_counts_and_not_the_last_one_alone(attributes: list[tuple[str, str]]) -> None:
    with pytest.raises(IssuedMismatchError, match=r"allowed: subject .* allowed common_name"):
        verify_issued_elsewhere(answer(subject_name=_name(*attributes)), EXPECTED, ANCHORS, now=NOW)


# permittedSubtrees with the DNS name "example".
_CONSTRAINTS = bytes.fromhex("300d a00b 3009 8207") + b"example"


@pytest.mark.parametrize(
    ("oid", "value"),
    [
        (certificate_extensions.NAME_CONSTRAINTS, _CONSTRAINTS),
        (certificate_extensions.POLICY_CONSTRAINTS, bytes.fromhex("3003 800100")),
        (certificate_extensions.INHIBIT_ANY_POLICY, bytes.fromhex("020100")),
        ("2.5.29.18", bytes.fromhex("3003 820161")),  # names of the issuer
        ("2.5.29.9", bytes.fromhex("3000")),  # attributes of the subject
        ("1.3.6.1.4.1.57683.99", bytes.fromhex("0500")),
    ],
)
def test_an_extension_that_nobody_compares_is_not_taken_unless_it_is_tolerated(oid: str, value: bytes) -> None:
    text = answer(extra=(Extension(oid, False, value),))
    with pytest.raises(IssuedMismatchError, match=f"allowed: extension {oid} was not asked for"):
        verify_issued_elsewhere(text, EXPECTED, ANCHORS, now=NOW)
    tolerant = msgspec.structs.replace(EXPECTED, tolerated=frozenset({oid}))
    assert verify_issued_elsewhere(text, tolerant, ANCHORS, now=NOW)


@pytest.mark.parametrize(
    ("oid", "value"),
    [
        (certificate_extensions.SUBJECT_KEY_ID, bytes.fromhex("040101")),
        (certificate_extensions.POLICIES, bytes.fromhex("3006 3004 06022a03")),
        (certificate_extensions.DISTRIBUTION_POINTS, bytes.fromhex("3000")),
        (certificate_extensions.AUTHORITY_INFO_ACCESS, bytes.fromhex("3000")),
        ("1.3.6.1.4.1.11129.2.4.2", bytes.fromhex("0400")),
        ("1.3.6.1.4.1.37476.9000.64.1", bytes.fromhex("3000")),
    ],
)
def test_what_cas_add_to_every_certificate_is_no_difference(oid: str, value: bytes) -> None:
    assert verify_issued_elsewhere(answer(extra=(Extension(oid, False, value),)), EXPECTED, ANCHORS, now=NOW)


def _request(*attributes: tuple[str, str], extensions: tuple[Extension, ...] = ()) -> CertificateRequest:
    made = x509_request.parse_pem(build_request(_KEY, EXPECTED.subject, NAMES, extensions))
    return msgspec.structs.replace(made, subject=Subject.of(attributes)) if attributes else made


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (_request((COMMON_NAME, "x"), (COMMON_NAME, "a.example")), "more than one common name"),
        (_request((SERIAL_NUMBER, "1"), (SERIAL_NUMBER, "2")), "more than one serial number"),
        (_request(extensions=(Extension("2.5.29.30", True, _CONSTRAINTS),)), "extension 2.5.29.30 was not asked for"),
        (_request(extensions=(Extension("2.5.29.19", True, bytes.fromhex("30030101ff")),)), "certificate of a CA"),
        (_request(extensions=(Extension("2.5.29.19", True, bytes.fromhex("0500")),)), "cannot be read"),
    ],
)
def test_a_request_that_a_ca_must_not_copy_is_not_sent_to_one(request_: CertificateRequest, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        verify_copyable(request_)


def test_a_request_that_a_ca_may_copy() -> None:
    # As openssl's example configuration has it.
    usual = (Extension("2.5.29.19", False, bytes.fromhex("3000")), Extension("2.5.29.15", False, b"\x03\x02\x05\xe0"))
    verify_copyable(_request(extensions=usual))
    verify_copyable(_request(extensions=(Extension("1.2.3", False, b""),)), frozenset({"1.2.3"}))


def test_all_differences_are_told_at_once() -> None:
    text = answer(public_key=OTHER, is_ca=True, alt_names=SubjectAltNames(dns_names=("c.example",)))
    with pytest.raises(IssuedMismatchError) as refusal:
        verify_issued_elsewhere(text, EXPECTED, ANCHORS, now=NOW)
    assert len(refusal.value.differences) == 5
    assert x509_certificate.parse_pem(text)
