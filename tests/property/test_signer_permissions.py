"""Whatever is asked of whatever signer, there is a refusal or a certificate within what was permitted.

A finding of the look before the signature would stop the signer: no request may bring one about.
"""

from __future__ import annotations

import datetime as dt
import ipaddress

from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

import odd_certificates
from kubevouch.pki import authority, issuance
from kubevouch.pki.errors import ParseError, PolicyError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.name_patterns import Kind, Patterns
from kubevouch.pki.permissions import (
    AuthorityPermissions,
    ExtensionPermissions,
    NamePermissions,
    Otherwise,
    Permissions,
    SubjectPermissions,
    UsagePermissions,
)
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import der, x509_request
from kubevouch.pki.x509.certificate_extensions import BASIC_CONSTRAINTS
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import OID, SubjectAltNames
from kubevouch.pki.x509.usages import ALL

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = ec.derive_private_key(0x1234567, ec.SECP256R1())
CA = authority.create_authority("ca", ec.derive_private_key(0xCA, ec.SECP256R1()), now=NOW)

WORDS = st.sampled_from(
    ["", "a", "a.example.com", "x.a.example.com", "evilexample.com", "*.example.com", "kubernetes", "ü", "a\0b", "-",
     "system:masters", "system:node:a", "system:nodes"]
)  # fmt: skip
ASCII = WORDS.filter(str.isascii)
ADDRESSES = st.sampled_from(["10.0.0.1", "11.0.0.1", "::1"]).map(ipaddress.ip_address)
SUBJECTS = st.builds(
    Subject, common_name=WORDS, organizations=st.lists(WORDS, max_size=2).map(tuple), serial_number=WORDS
)
NAMES = st.builds(
    SubjectAltNames,
    dns_names=st.lists(ASCII, max_size=3).map(tuple),
    ip_addresses=st.lists(ADDRESSES, max_size=2).map(tuple),
    email_addresses=st.lists(ASCII, max_size=1).map(tuple),
    uris=st.lists(st.sampled_from(["spiffe://a/b", "urn:x"]), max_size=1).map(tuple),
)
CONSTRAINTS = [bytes.fromhex(each) for each in ("3000", "30030101ff", "30060101ff020105", "0500")]
OTHERS = ["1.2.3", "2.5.29.15", "2.5.29.37", "2.5.29.14", "2.5.29.31", "2.5.29.30"]
EXTENSIONS = st.lists(
    st.one_of(
        st.tuples(st.just(BASIC_CONSTRAINTS), st.sampled_from(CONSTRAINTS)),
        st.tuples(st.sampled_from(OTHERS), st.sampled_from([b"\x05\x00", b"\x30\x00", b""])),
    ),
    max_size=3,
    unique_by=lambda each: each[0],
)
# What each of Kubernetes' signers takes, and a CA needs: by chance they would hardly come.
USAGES = st.sampled_from(
    [["client auth"], ["digital signature", "client auth"], ["digital signature", "server auth"], ["cert sign"]]
)
OTHERWISE = st.sampled_from(Otherwise)
PATTERNS = st.lists(st.sampled_from(["*", "**", "*.example.com", "a", "system:masters", "system:node:*"]), max_size=3)
PERMISSIONS = st.builds(
    Permissions,
    subject=st.builds(
        SubjectPermissions,
        patterns=st.fixed_dictionaries(dict.fromkeys(("common_name", "organizations"), PATTERNS.map(Patterns))),
        anything=st.booleans(),
        otherwise=OTHERWISE,
    ),
    names=st.builds(
        NamePermissions,
        dns_names=st.builds(Patterns, PATTERNS, st.just(Kind.DNS), wildcards=st.booleans()),
        networks=st.sampled_from([(), (ipaddress.ip_network("10.0.0.0/8"),)]),
        most=st.integers(0, 4),
        otherwise=OTHERWISE,
    ),
    usages=st.builds(UsagePermissions, permitted=st.frozensets(st.sampled_from(ALL), min_size=1), otherwise=OTHERWISE),
    authority=st.builds(
        AuthorityPermissions, allowed=st.booleans(), most_below=st.sampled_from([None, 0, 3]), otherwise=OTHERWISE
    ),
    extensions=st.builds(
        ExtensionPermissions, permitted=st.sampled_from([frozenset(), frozenset({"1.2.3"})]), otherwise=OTHERWISE
    ),
    longest=st.integers(600, 1 << 40),
    when_longer=OTHERWISE,
)


@given(
    st.one_of(st.none(), PERMISSIONS),
    st.sampled_from(KUBERNETES_SIGNERS),
    st.one_of(st.just(Subject()), SUBJECTS),
    st.one_of(st.just(SubjectAltNames()), NAMES),
    EXTENSIONS,
    st.one_of(USAGES, st.lists(st.sampled_from(ALL), max_size=4)),
    st.one_of(st.none(), st.integers(1, 1 << 31)),
    st.sampled_from(Profile),
    st.sampled_from([0.0, 0.5]),
    st.integers(-3600, 86400 * 3650 - 1),
)
def test_a_refusal_or_a_certificate_that_was_permitted(
    permissions: Permissions | None,
    signer: str,
    subject: Subject,
    names: SubjectAltNames,
    extensions: list[tuple[str, bytes]],
    usages: list[str],
    seconds: int | None,
    profile: Profile,
    spread: float,
    later: int,
) -> None:
    wanted = [odd_certificates.extension(oid, value) for oid, value in extensions]
    if names:
        wanted.append(odd_certificates.extension(OID, names.encode()))
    try:
        request = x509_request.parse_der(odd_certificates.request(KEY, *wanted, name=subject.encode()))
    except ParseError:
        return
    longest = dt.timedelta(seconds=365 * 86400 if permissions is None else min(permissions.longest, 1 << 31))
    rules = SigningRules(signing_duration=longest, profile=profile, permissions=permissions, spread=spread)
    now = NOW + dt.timedelta(seconds=later)
    try:
        made = issuance.issue(
            CA, request, signer_name=signer if permissions is None else "example.com/x", usages=usages,
            expiration_seconds=seconds, now=now, rules=rules,
        )  # fmt: skip
    except PolicyError:
        return
    assert "system:masters" not in made.subject.organizations
    assert made.not_after <= CA.certificate.not_after
    assert set(made.meaning.alt_names.dns_names) <= set(names.dns_names)
    if permissions is None:
        assert not made.meaning.is_ca
        return
    assert made.meaning.is_ca <= permissions.authority.allowed
    assert all(permissions.names.dns_names.permit(each) for each in made.meaning.alt_names.dns_names)
    assert len(made.meaning.alt_names.dns_names) + len(made.meaning.alt_names.ip_addresses) <= permissions.names.most
    assert {5, 6}.isdisjoint(made.meaning.key_usage) or made.meaning.is_ca
    assert der.encode_object_identifier("2.5.29.31") not in made.contents
