"""pki/permissions.py: what becomes of each wish, and that a certificate says what was granted and no more."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import odd_certificates
from kubevouch.pki import authority, issuance
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import AuthorityError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.name_patterns import Kind, Patterns
from kubevouch.pki.permissions import (
    AuthorityPermissions,
    ExtensionPermissions,
    Grant,
    NamePermissions,
    Otherwise,
    Permissions,
    SubjectPermissions,
    UsagePermissions,
)
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import certificate_extensions, der, x509_request
from kubevouch.pki.x509.certificate_extensions import BASIC_CONSTRAINTS, Extension
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import OID as ALT_NAMES
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest

NAME = "example.com/web"
KEY = ec.derive_private_key(0x1234567, ec.SECP256R1())
SERVING = ("digital signature", "server auth")
SIGNING = ("cert sign", "crl sign", "digital signature")
SUBJECT = SubjectPermissions({"common_name": Patterns(["*.example.com"]), "organizations": Patterns(["web"])})
NAMES = NamePermissions(
    dns_names=Patterns(["*.example.com"], Kind.DNS), networks=(ipaddress.ip_network("10.0.0.0/8"),), most=3
)
USES = UsagePermissions(frozenset({*SERVING, *SIGNING, "client auth"}))
PERMITTED = Permissions(SUBJECT, NAMES, USES, longest=86400)
DROPPING = Permissions(
    SubjectPermissions(SUBJECT.patterns, otherwise=Otherwise.DROP),
    NamePermissions(dns_names=NAMES.dns_names, networks=NAMES.networks, otherwise=Otherwise.DROP),
    UsagePermissions(USES.permitted, otherwise=Otherwise.DROP),
    AuthorityPermissions(otherwise=Otherwise.DROP),
    ExtensionPermissions(otherwise=Otherwise.DROP),
    longest=86400,
)
WEB = Subject(common_name="a.example.com", organizations=("web",))


def replaced(permissions: Permissions, **changes: Any) -> Permissions:
    return msgspec.structs.replace(permissions, **changes)


def asked(subject: Subject = WEB, *extensions: bytes, **names: Any) -> CertificateRequest:
    alt_names = SubjectAltNames(**names)
    wanted = [odd_certificates.extension(ALT_NAMES, alt_names.encode())] if alt_names else []
    return x509_request.parse_der(odd_certificates.request(KEY, *wanted, *extensions, name=subject.encode()))


def constraints(path_length: int | None = None, *, ca: bool = True) -> bytes:
    limit = b"" if path_length is None else der.encode_integer(path_length)
    value = der.encode(der.SEQUENCE, b"\x01\x01\xff" if ca else b"", limit)
    return odd_certificates.extension(BASIC_CONSTRAINTS, value, critical=True)


def granted(
    permissions: Permissions, request: CertificateRequest, usages: tuple[str, ...] = SERVING, seconds: int | None = None
) -> Grant:
    return permissions.grant(request, usages, seconds)[0]


def refusal(permissions: Permissions, *args: Any) -> str:
    with pytest.raises(PolicyError) as error:
        granted(permissions, *args)
    return str(error.value)


def test_what_is_permitted_is_granted_as_it_was_asked_for() -> None:
    address = ipaddress.ip_address("10.1.2.3")
    grant = granted(PERMITTED, asked(dns_names=("b.example.com",), ip_addresses=(address,)), SERVING, 3600)
    assert grant.subject == WEB
    assert grant.alt_names == SubjectAltNames(dns_names=("b.example.com",), ip_addresses=(address,))
    assert not grant.is_ca and grant.extensions == ()


UNWANTED: list[tuple[str, CertificateRequest]] = [
    ('common name "evilexample.com"', asked(Subject(common_name="evilexample.com"))),
    ('common name "x.a.example.com"', asked(Subject(common_name="x.a.example.com"))),
    ('organization "db"', asked(Subject(common_name="a.example.com", organizations=("web", "db")))),
    ('locality "Rome"', asked(Subject(common_name="a.example.com", localities=("Rome",)))),
    ('serial number "1"', asked(Subject(common_name="a.example.com", serial_number="1"))),
    ('DNS subjectAltName "evilexample.com"', asked(dns_names=("b.example.com", "evilexample.com"))),
    ('DNS subjectAltName "*.example.com"', asked(dns_names=("*.example.com",))),
    ('IP subjectAltName "11.0.0.1"', asked(ip_addresses=(ipaddress.ip_address("11.0.0.1"),))),
    ('IP subjectAltName "::1"', asked(ip_addresses=(ipaddress.ip_address("::1"),))),
    ('Email subjectAltName "a@example.com"', asked(email_addresses=("a@example.com",))),
    ('URI subjectAltName "spiffe://a/b"', asked(uris=("spiffe://a/b",))),
    ("a CA certificate is asked for", asked(WEB, constraints())),
    ("extension 1.2.3 is not permitted", asked(WEB, odd_certificates.extension("1.2.3", b"\x05\x00", critical=True))),
    ("neither DNS", asked(WEB, odd_certificates.extension(ALT_NAMES, bytes.fromhex("300588032a0304")))),
]


@pytest.mark.parametrize(("why", "request_"), UNWANTED, ids=[why for why, _ in UNWANTED])
def test_what_is_not_permitted_fails_or_is_dropped(why: str, request_: CertificateRequest) -> None:
    assert why in refusal(PERMITTED, request_)
    # What is left when the subject goes has to name somebody.
    names = msgspec.structs.replace(request_.alt_names, dns_names=(*request_.alt_names.dns_names, "b.example.com"))
    grant = granted(DROPPING, msgspec.structs.replace(request_, alt_names=names))
    assert grant.subject in (WEB, Subject(common_name="a.example.com"), Subject()) or grant.subject.organizations == (
        "web",
    )
    assert grant.alt_names == SubjectAltNames(dns_names=("b.example.com",) * len(grant.alt_names.dns_names))
    assert not grant.is_ca and grant.extensions == ()


def test_a_user_s_uid_in_the_subject_is_never_issued() -> None:
    odd = msgspec.structs.replace(
        asked(), subject=Subject.of([("2.5.4.3", "a.example.com"), ("1.3.6.1.4.1.57683.2", "admin")])
    )
    assert "1.3.6.1.4.1.57683.2 is not issued" in refusal(PERMITTED, odd)
    assert granted(DROPPING, odd).subject.attributes == ()


def test_if_nothing_is_left_there_is_no_certificate() -> None:
    stranger = asked(Subject(common_name="stranger"), dns_names=("stranger.net",))
    assert "neither a subject nor a subjectAltName is left" in refusal(DROPPING, stranger)
    assert "no usage is left" in refusal(DROPPING, asked(), ("timestamping",))


@pytest.mark.parametrize("name", ["system:masters", "system:node:a", "system:anonymous"])
def test_no_star_stands_for_kubernetes_own_names(name: str) -> None:
    anything = SubjectPermissions({"common_name": Patterns(["**"])}, anything=True)
    for subject in (Subject(common_name=name), Subject(common_name="a", organizations=(name,))):
        assert "is not permitted" in refusal(replaced(PERMITTED, subject=anything), asked(subject))
    written = SubjectPermissions({"common_name": Patterns(["*", "system:monitor:*"])})
    monitor = asked(Subject(common_name="system:monitor:a"))
    assert granted(replaced(PERMITTED, subject=written), monitor).subject.common_name == "system:monitor:a"
    assert refusal(replaced(PERMITTED, subject=written), asked(Subject(common_name="system:x:a")))


def test_what_is_required() -> None:
    needs = SubjectPermissions(SUBJECT.patterns, required=frozenset({"organizations"}))
    assert "no organization" in refusal(replaced(PERMITTED, subject=needs), asked(Subject(common_name="a.example.com")))
    assert "a subjectAltName is required" in refusal(
        replaced(PERMITTED, names=NamePermissions(dns_names=NAMES.dns_names, required=True)), asked()
    )
    uses = UsagePermissions(USES.permitted, required=frozenset({"server auth"}))
    assert 'usage "server auth" is required' in refusal(
        replaced(PERMITTED, usages=uses), asked(), ("digital signature", "client auth")
    )
    assert 'usage "timestamping" is not permitted' in refusal(PERMITTED, asked(), (*SERVING, "timestamping"))


def test_names_are_counted() -> None:
    names = tuple(f"a{n}.example.com" for n in range(4))
    assert "there are 4 subjectAltNames, 3 at most" in refusal(PERMITTED, asked(dns_names=names))
    assert granted(PERMITTED, asked(dns_names=names[:3])).alt_names.dns_names == names[:3]


def test_a_longer_life_gets_the_longest_or_fails() -> None:
    assert granted(PERMITTED, asked(), SERVING, 86401)
    failing = replaced(PERMITTED, when_longer=Otherwise.FAIL)
    assert "86401 seconds are asked for, 86400 at most" in refusal(failing, asked(), SERVING, 86401)
    assert granted(failing, asked(), SERVING, 86400) and granted(failing, asked())


def test_the_signer_s_own_extensions_cannot_be_asked_for_and_copies_are_not_critical() -> None:
    permissions = replaced(PERMITTED, extensions=ExtensionPermissions(frozenset({"1.2.3"})))
    grant = granted(permissions, asked(WEB, odd_certificates.extension("1.2.3", b"\x05\x00", critical=True)))
    assert grant.extensions == (Extension("1.2.3", False, b"\x05\x00"),)
    habit = odd_certificates.extension(certificate_extensions.SUBJECT_KEY_ID, b"\x04\x01\x01")
    assert granted(permissions, asked(WEB, habit)).extensions == ()
    points = odd_certificates.extension(certificate_extensions.DISTRIBUTION_POINTS, b"\x30\x00")
    assert "2.5.29.31 is not permitted" in refusal(permissions, asked(WEB, points))


@pytest.mark.parametrize("value", [b"\x05\x00", b"", b"\x30\x02\x30\x00"])
def test_contents_that_no_certificate_could_be_read_with_are_the_request_s_fault(value: bytes) -> None:
    """Found out after signing, they would stop the signer for everybody."""
    permissions = replaced(PERMITTED, extensions=ExtensionPermissions(frozenset({certificate_extensions.POLICIES})))
    policies = odd_certificates.extension(certificate_extensions.POLICIES, value)
    assert "extension 2.5.29.32 does not parse: x509: " in refusal(permissions, asked(WEB, policies))
    good = odd_certificates.extension(certificate_extensions.POLICIES, bytes.fromhex("3006300406022a03"))
    assert granted(permissions, asked(WEB, good)).extensions


# ------------------------------------------------------------------ as certificates


def issued(
    ca: CertificateAuthority, now: dt.datetime, request: CertificateRequest, permissions: Permissions, **changes: Any
) -> Certificate:
    settings: dict[str, Any] = {"usages": SERVING, "expiration_seconds": None, "now": now, **changes}
    rules = SigningRules(
        permissions=permissions, signing_duration=dt.timedelta(seconds=permissions.longest),
        default_duration=settings.pop("default", None), spread=settings.pop("spread", 0.0),
        profile=settings.pop("profile", Profile.STRICT), extensions=settings.pop("extensions", ()),
    )  # fmt: skip
    return issuance.issue(ca, request, signer_name=NAME, rules=rules, **settings)


CAS = replaced(PERMITTED, authority=AuthorityPermissions(allowed=True, most_below=1))


@pytest.mark.parametrize(
    ("wanted", "allowed", "above", "got"),
    [(None, 1, None, 1), (5, 1, None, 1), (0, 1, None, 0), (5, None, None, 5), (None, None, None, None),
     (None, 5, 3, 2), (None, None, 1, 0), (7, None, 3, 2)],
)  # fmt: skip
def test_a_ca_has_the_least_of_all_path_lengths(
    now: dt.datetime, wanted: int | None, allowed: int | None, above: int | None, got: int | None
) -> None:
    permissions = replaced(PERMITTED, authority=AuthorityPermissions(allowed=True, most_below=allowed))
    made = issued(limited(now, above), now, asked(WEB, constraints(wanted)), permissions, usages=SIGNING)
    assert made.meaning.is_ca and made.meaning.max_path_length == got
    assert {5, 6} <= made.meaning.key_usage and made.meaning.subject_key_id


def limited(now: dt.datetime, path_length: int | None) -> CertificateAuthority:
    ca = authority.create_authority("limited", ec.derive_private_key(0xCB, ec.SECP256R1()), now=now)
    meaning = msgspec.structs.replace(ca.certificate.meaning, max_path_length=path_length)
    ca.certificate = msgspec.structs.replace(ca.certificate, meaning=meaning)
    return ca


def test_below_an_authority_that_permits_none_there_is_none(now: dt.datetime) -> None:
    with pytest.raises(PolicyError, match="permits none below it"):
        issued(limited(now, 0), now, asked(WEB, constraints(0)), CAS, usages=SIGNING)


@pytest.mark.parametrize("profile", Profile)
def test_who_is_no_ca_may_not_sign_certificates(ca: CertificateAuthority, now: dt.datetime, profile: Profile) -> None:
    for request in (asked(), asked(WEB, constraints(ca=False))):
        with pytest.raises(PolicyError, match="for CA certificates only"):
            issued(ca, now, request, CAS, usages=SIGNING, profile=profile)
    with pytest.raises(PolicyError, match="without the usage"):
        issued(ca, now, asked(WEB, constraints()), CAS, profile=profile)


def test_a_path_length_as_large_as_a_number_can_be_is_no_crash(ca: CertificateAuthority, now: dt.datetime) -> None:
    made = issued(ca, now, asked(WEB, constraints((1 << 63) - 1)), CAS, usages=SIGNING)
    assert made.meaning.max_path_length == 1
    with pytest.raises(PolicyError, match="do not parse"):
        issued(ca, now, asked(WEB, constraints(1 << 4000)), CAS, usages=SIGNING)


@pytest.mark.parametrize("profile", Profile)
def test_the_group_of_the_masters_is_never_issued(ca: CertificateAuthority, now: dt.datetime, profile: Profile) -> None:
    foolish = SubjectPermissions({"organizations": Patterns(["system:masters"])}, anything=True)
    masters = asked(Subject(common_name="a", organizations=("system:masters",)))
    with pytest.raises(PolicyError, match="system:masters"):
        issued(ca, now, masters, replaced(PERMITTED, subject=foolish), profile=profile)


def test_what_the_signer_says_of_itself_stands_in_each_certificate(ca: CertificateAuthority, now: dt.datetime) -> None:
    points = Extension("2.5.29.31", False, bytes.fromhex("300f300da00ba0098607687474703a2f2f61"))
    assert points in issued(ca, now, asked(), PERMITTED, extensions=(points,)).extensions


def test_lifetimes(ca: CertificateAuthority, now: dt.datetime) -> None:
    def life(**changes: Any) -> float:
        return (issued(ca, now, asked(), PERMITTED, **changes).not_after - now).total_seconds()

    assert life() == 86400 - 300 and life(default=dt.timedelta(hours=2)) == 7200
    assert life(default=dt.timedelta(days=9)) == 86400 - 300
    assert life(expiration_seconds=3600, default=dt.timedelta(hours=2)) == 3600
    assert life(expiration_seconds=99999, default=dt.timedelta(hours=2)) == 86400 - 300


def test_certificates_asked_for_together_end_apart_and_a_retry_ends_where_the_first_try_did(
    ca: CertificateAuthority, now: dt.datetime
) -> None:
    def end(uid: str, **changes: Any) -> dt.datetime:
        return issued(ca, now, asked(), PERMITTED, spread=0.25, seed=uid, **changes).not_after

    ends = [end(str(number)) for number in range(64)]
    latest = now + dt.timedelta(seconds=86400 - 300)
    earliest = now + (latest - now) * 0.75
    assert all(earliest <= each <= latest for each in ends) and len(set(ends)) > 60
    assert min(ends) < now + (latest - now) * 0.8 and max(ends) > now + (latest - now) * 0.95
    assert end("7") == ends[7]
    short = end("7", expiration_seconds=600)
    assert short == now + dt.timedelta(seconds=600)


def test_a_fleet_that_outlives_its_authority_ends_apart_and_before_it(
    ca: CertificateAuthority, now: dt.datetime
) -> None:
    later = ca.certificate.not_after - dt.timedelta(hours=2)
    ends = [issued(ca, later, asked(), PERMITTED, spread=0.5, seed=str(each)).not_after for each in range(32)]
    assert max(ends) <= ca.certificate.not_after and len(set(ends)) > 28
    assert min(ends) >= later + dt.timedelta(hours=1)
    last = ca.certificate.not_after - dt.timedelta(minutes=3)
    assert issued(ca, last, asked(), PERMITTED, spread=0.5, seed="x").not_after == ca.certificate.not_after


def test_without_permissions_a_signer_is_one_of_kubernetes(ca: CertificateAuthority, now: dt.datetime) -> None:
    with pytest.raises(AuthorityError, match="unrecognized signerName"):
        issuance.issue(ca, asked(), signer_name=NAME, usages=SERVING, expiration_seconds=None, now=now)
