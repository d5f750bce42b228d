from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, mldsa

from kubevouch.pki import issuance, keys, policy
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.errors import (
    AuthorityError,
    AuthorityExpiredError,
    IssuedMismatchError,
    PolicyError,
    SignatureError,
    UsageError,
)
from kubevouch.pki.issuance import Allowance, SigningRules, issue, verify_issued
from kubevouch.pki.policy import Validity
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import resolve
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_UNKNOWN_SIGNER

MakeRequest = Callable[..., CertificateRequest]
MakeCertificate = Callable[..., Certificate]
USAGES = ("digital signature", "client auth")


@pytest.fixture
def sign(ca: CertificateAuthority, now: dt.datetime) -> Callable[..., Certificate]:
    def call(request: CertificateRequest, **changes: Any) -> Certificate:
        settings: dict[str, Any] = {
            "signer_name": KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
            "usages": USAGES,
            "expiration_seconds": None,
            "now": now,
            **changes,
        }
        return issue(settings.pop("authority", ca), request, **settings)

    return call


def test_a_node_gets_its_certificate(
    sign: Callable[..., Certificate], make_request: MakeRequest, now: dt.datetime
) -> None:
    request = make_request()
    certificate = sign(request, expiration_seconds=3600)
    assert certificate.public_key.info == request.public_key.info
    assert certificate.subject.common_name == "system:node:worker-7"
    assert certificate.not_after == now + dt.timedelta(hours=1)
    assert certificate.serial != sign(request).serial


def test_the_strict_profile_adds_a_key_id_and_shortens_the_serial(
    sign: Callable[..., Certificate], make_request: MakeRequest
) -> None:
    strict = sign(make_request(), rules=SigningRules(profile=Profile.STRICT))
    assert strict.meaning.subject_key_id
    assert 0 < strict.serial < 1 << 127
    compatible = sign(make_request(), rules=SigningRules(profile=Profile.COMPATIBLE))
    assert not compatible.meaning.subject_key_id


def test_step_1_shape_before_everything(
    sign: Callable[..., Certificate], make_request: MakeRequest, now: dt.datetime
) -> None:
    broken = msgspec.structs.replace(make_request(dns_names=("d",)), signature=b"")
    ended = create_authority("x", ec.derive_private_key(9, ec.SECP256R1()), now=now - dt.timedelta(days=9000))
    with pytest.raises(PolicyError, match="DNS subjectAltNames"):
        sign(broken, authority=ended)
    with pytest.raises(AuthorityError, match="unrecognized signerName"):
        sign(broken, signer_name="x/y")


def test_step_2_the_signature(sign: Callable[..., Certificate], make_request: MakeRequest) -> None:
    broken = msgspec.structs.replace(make_request(), signature=b"")
    with pytest.raises(SignatureError) as refusal:
        sign(broken)
    assert str(refusal.value) == ("unable to verify certificate request signature: x509: ECDSA verification failure")


def test_step_2_ml_dsa_behind_its_gate(sign: Callable[..., Certificate], make_request: MakeRequest) -> None:
    request = make_request(key=mldsa.MLDSA44PrivateKey.generate())
    with pytest.raises(SignatureError, match="algorithm unimplemented"):
        sign(request)
    certificate = sign(request, rules=SigningRules(post_quantum=True))
    assert certificate.public_key.name == "ML-DSA-44"


def test_step_3_usages_before_lifetime(
    sign: Callable[..., Certificate], make_request: MakeRequest, now: dt.datetime
) -> None:
    ended = create_authority("x", ec.derive_private_key(9, ec.SECP256R1()), now=now - dt.timedelta(days=9000))
    with pytest.raises(UsageError, match=r'unrecognized usage values: \["x"\]'):
        sign(
            make_request(Subject(common_name="jane")), signer_name=LEGACY_UNKNOWN_SIGNER, usages=("x",), authority=ended
        )
    with pytest.raises(AuthorityExpiredError, match="the signer has expired"):
        sign(make_request(), authority=ended)


def test_step_4_stands_by_itself(
    sign: Callable[..., Certificate], make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the shape rules were ever bypassed, a node signer still does not issue system:masters."""
    monkeypatch.setattr(issuance, "verify_shape", lambda *_: None)
    masters = Subject(common_name="system:node:n", organizations=("system:nodes", "system:masters"))
    with pytest.raises(PolicyError, match="never issues the system:masters group"):
        sign(make_request(masters))


def test_step_6_the_new_signature_can_be_verified(
    ca: CertificateAuthority, sign: Callable[..., Certificate], make_request: MakeRequest, other_key: Any
) -> None:
    rules = SigningRules(verify_signature=True)
    sign(make_request(), rules=rules)
    wrong = CertificateAuthority(ca.certificate, other_key)
    sign(make_request(), authority=wrong)
    with pytest.raises(IssuedMismatchError, match="its signature: x509: ECDSA verification failure"):
        sign(make_request(), authority=wrong, rules=rules)


def allowance(certificate: Certificate, ca: CertificateAuthority, **changes: Any) -> Allowance:
    return Allowance(
        **{
            "subject": certificate.subject,
            "public_key": certificate.public_key.info,
            "alt_names": certificate.meaning.alt_names,
            "usages": resolve(USAGES),
            "validity": Validity(certificate.not_before, certificate.not_after),
            "issuer_name": ca.certificate.subject_name,
            **changes,
        }
    )


NAMES = SubjectAltNames(
    dns_names=("a", "b"), email_addresses=("a@b",), ip_addresses=(ipaddress.ip_address("::1"),), uris=("urn:x",)
)


def test_what_was_allowed_passes(ca: CertificateAuthority, make_certificate: MakeCertificate) -> None:
    certificate = make_certificate(usages=USAGES, alt_names=NAMES, with_subject_key_id=True)
    assert verify_issued(certificate.contents, allowance(certificate, ca)) == certificate


def test_organizations_may_come_back_in_another_order(
    ca: CertificateAuthority, make_certificate: MakeCertificate
) -> None:
    subject = Subject(common_name="x", organizations=("b", "a", "b"))
    certificate = make_certificate(usages=USAGES, subject=subject)
    verify_issued(certificate.contents, allowance(certificate, ca, subject=subject))
    with pytest.raises(IssuedMismatchError, match="subject"):
        verify_issued(
            certificate.contents,
            allowance(certificate, ca, subject=msgspec.structs.replace(subject, organizations=("a", "b"))),
        )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"subject": Subject(common_name="other")}, "subject"),
        ({"public_key": b"other"}, "another public key"),
        ({"issuer_name": b"\x30\x00"}, "issuer"),
        ({"alt_names": msgspec.structs.replace(NAMES, dns_names=("a",))}, 'DNS name "b" was not asked for'),
        ({"alt_names": msgspec.structs.replace(NAMES, email_addresses=())}, 'e-mail address "a@b" was not asked for'),
        ({"alt_names": msgspec.structs.replace(NAMES, ip_addresses=())}, 'IP address "::1" was not asked for'),
        ({"alt_names": msgspec.structs.replace(NAMES, uris=())}, 'URI "urn:x" was not asked for'),
        ({"usages": resolve(["client auth"])}, r"key usage bits \[0\] were not asked for"),
        ({"usages": resolve(["digital signature"])}, "extended key usages .* were not asked for"),
    ],
)
def test_what_goes_beyond_the_allowance(
    ca: CertificateAuthority, make_certificate: MakeCertificate, changes: dict[str, Any], text: str
) -> None:
    certificate = make_certificate(usages=USAGES, alt_names=NAMES)
    with pytest.raises(IssuedMismatchError, match=text):
        verify_issued(certificate.contents, allowance(certificate, ca, **changes))


def test_dates_beyond_the_allowance(
    ca: CertificateAuthority, make_certificate: MakeCertificate, now: dt.datetime
) -> None:
    certificate = make_certificate(usages=USAGES)
    with pytest.raises(IssuedMismatchError) as raised:
        verify_issued(certificate.contents, allowance(certificate, ca, validity=Validity(now, now)))
    assert [text[:10] for text in raised.value.differences] == ["not before", "not after "]


def test_a_ca_or_an_unrestricted_certificate_is_never_allowed(
    ca: CertificateAuthority, make_certificate: MakeCertificate
) -> None:
    certificate = make_certificate(is_ca=True)
    with pytest.raises(IssuedMismatchError) as raised:
        verify_issued(certificate.contents, allowance(certificate, ca))
    assert raised.value.differences == ("it is a CA", "extended key usages are missing", "key usages are missing")


def test_fields_that_nobody_asked_for(
    ca: CertificateAuthority, make_certificate: MakeCertificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(usages=USAGES)
    monkeypatch.setattr(issuance, "_EXPECTED_EXTENSIONS", frozenset({"2.5.29.15", "2.5.29.37"}))
    old = msgspec.structs.replace(certificate, version=1)
    monkeypatch.setattr(x509_certificate, "parse_der", lambda _: old)
    with pytest.raises(IssuedMismatchError) as raised:
        verify_issued(b"", allowance(certificate, ca))
    assert raised.value.differences == (
        "version 1, allowed 3", "extension 2.5.29.19 is not issued", "extension 2.5.29.35 is not issued",
    )  # fmt: skip


def test_a_certificate_that_does_not_parse(ca: CertificateAuthority, make_certificate: MakeCertificate) -> None:
    with pytest.raises(IssuedMismatchError, match="it does not parse: x509: malformed certificate"):
        verify_issued(b"x", allowance(make_certificate(), ca))


def test_serving_certificates_keep_their_names(sign: Callable[..., Certificate], make_request: MakeRequest) -> None:
    request = make_request(dns_names=("worker-7",), ip_addresses=(ipaddress.ip_address("192.0.2.17"),))
    certificate = sign(request, signer_name=KUBELET_SERVING_SIGNER, usages=("digital signature", "server auth"))
    assert certificate.meaning.alt_names == request.alt_names


def test_the_default_duration_is_a_year(
    sign: Callable[..., Certificate], make_request: MakeRequest, now: dt.datetime
) -> None:
    assert sign(make_request()).not_after == now + policy.DEFAULT_SIGNING_DURATION - policy.BACKDATE
    assert keys.public_key_of(ec.derive_private_key(0x1234567, ec.SECP256R1())) == sign(make_request()).public_key
