"""S27: a signer that makes something else than was allowed stops, and one bad name among good ones is refused."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

import identity_world as world
from controller_world import FIXTURES, NOW
from identity_world import NODE_CLIENT, NODE_SERVING
from kubevouch.pki import issuance, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import IssuedMismatchError, PolicyError
from kubevouch.pki.profile import Profile, verify_profile
from kubevouch.pki.x509 import certificate_builder, x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.usages import resolve

CA_FILE, CA_KEY = FIXTURES / "ca-ec.crt", FIXTURES / "ca-ec.key"
CA = CertificateAuthority.load(
    CA_FILE.read_bytes(), CA_KEY.read_bytes(), certificate_file=str(CA_FILE), key_file=str(CA_KEY)
)
# A user's UID to the API server, and nothing to who reads what Go reads.
WITH_UID = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, "system:node:a"),
        x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), "admin"),
    ]
).public_bytes()
OTHER = keys.public_key_of(world.new_key())
GOOD = tuple(f"a{n}.example.com" for n in range(6))
ADDRESSES = tuple(ipaddress.ip_address(f"192.0.2.{n}") for n in range(1, 4))


class Faulty:
    """An authority whose last step goes wrong: its key makes ``changes`` to what it was told to say.

    ``early``: the step before goes wrong in the same way, so that it can be seen before the key is used.
    """

    def __init__(self, *, early: bool = False, **changes: Any) -> None:
        self.certificate = CA.certificate
        self.has_signed = False
        self._early = early
        self._changes = changes

    def draft(self, template: CertificateTemplate) -> bytes:
        return CA.draft(msgspec.structs.replace(template, **self._changes) if self._early else template)

    def sign(self, template: CertificateTemplate) -> bytes:
        self.has_signed = True
        return CA.sign(msgspec.structs.replace(template, **self._changes))


def sign(authority: Any, pem: bytes, signer: str, usages: tuple[str, ...]) -> Any:
    request = x509_request.parse_pem(pem)
    return issuance.issue(authority, request, signer_name=signer, usages=usages, expiration_seconds=3600, now=NOW)


SERVING = world.request(world.node_subject("a"), names=SubjectAltNames(dns_names=GOOD, ip_addresses=ADDRESSES))


@pytest.mark.parametrize(
    "changes",
    [
        {"public_key": OTHER},
        {"subject": Subject(common_name="system:node:b", organizations=("system:nodes",))},
        {"subject": Subject(common_name="system:node:a", organizations=("system:nodes", "system:masters"))},
        {"subject": Subject(common_name="system:node:a", organizations=("system:nodes",), serial_number="1")},
        {"subject_name": WITH_UID},
        {"usages": resolve(("digital signature", "server auth", "client auth"))},
        {"usages": resolve(("digital signature", "server auth", "cert sign"))},
        {"usages": resolve(("digital signature",))},
        {"is_ca": True},
        {"is_ca": None},
        {"serial": 4711},
        {"with_subject_key_id": False},
        {"subject_key_id": b"somebody else's"},
        {"extra": (Extension("2.5.29.31", False, bytes.fromhex("300f300da00ba0098607687474703a2f2f61")),)},
        {"not_after": NOW + dt.timedelta(hours=2)},
        {"not_before": NOW - dt.timedelta(hours=2)},
        {"alt_names": SubjectAltNames(dns_names=(*GOOD, "kubernetes"), ip_addresses=ADDRESSES)},
        {"alt_names": SubjectAltNames(dns_names=GOOD, ip_addresses=(*ADDRESSES, ipaddress.ip_address("::1")))},
        {"alt_names": SubjectAltNames(dns_names=GOOD, ip_addresses=ADDRESSES, uris=("spiffe://a/b",))},
        {"alt_names": SubjectAltNames(dns_names=GOOD, ip_addresses=ADDRESSES, email_addresses=("a@b",))},
    ],
)
def test_what_was_not_allowed_is_not_given_out(changes: dict[str, Any]) -> None:
    usages = world.SERVING_USAGES
    assert sign(CA, SERVING, NODE_SERVING, usages).subject.common_name == "system:node:a"
    with pytest.raises(IssuedMismatchError):
        sign(Faulty(**changes), SERVING, NODE_SERVING, usages)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": Subject(common_name="system:node:b", organizations=("system:nodes",))},
        {"is_ca": True},
        {"is_ca": None},
        {"serial": 0},
        {"serial": 1 << 130},
        {"with_subject_key_id": False},
        {"not_before": NOW + dt.timedelta(days=1)},
        {"not_after": NOW + dt.timedelta(days=36500)},
        {"extra": (Extension("1.2.3", True, b"\x05\x00"),)},
    ],
)
def test_what_is_wrong_is_seen_before_the_key_is_used(changes: dict[str, Any]) -> None:
    faulty = Faulty(early=True, **changes)
    with pytest.raises(IssuedMismatchError):
        sign(faulty, SERVING, NODE_SERVING, world.SERVING_USAGES)
    assert not faulty.has_signed


@pytest.mark.parametrize("place", range(len(GOOD) + 1))
@pytest.mark.parametrize("bad", ["a\0b", "a\nb", "a b", "a..b", "", "-a", "a/../b", "\x1b[2J", "*.*.a", "a" * 254])
def test_each_name_is_judged_by_itself(place: int, bad: str) -> None:
    names = (*GOOD[:place], bad, *GOOD[place:])
    request = x509_request.parse_pem(SERVING)
    request = msgspec.structs.replace(request, alt_names=SubjectAltNames(dns_names=names))
    with pytest.raises(PolicyError, match="is not a DNS name"):
        verify_profile(Profile.STRICT, NODE_SERVING, request, world.SERVING_USAGES)


@pytest.mark.parametrize("place", range(len(GOOD) + 1))
def test_each_issued_name_is_compared_by_itself(place: int) -> None:
    names = (*GOOD[:place], "kubernetes", *GOOD[place:])
    faulty = Faulty(alt_names=SubjectAltNames(dns_names=names, ip_addresses=ADDRESSES))
    with pytest.raises(IssuedMismatchError, match='DNS name "kubernetes" was not asked for'):
        sign(faulty, SERVING, NODE_SERVING, world.SERVING_USAGES)


@pytest.mark.parametrize("names", [{"dns_names": ("a",)}, {"ip_addresses": ADDRESSES}, {"uris": ("urn:x",)}])
def test_a_client_certificate_gets_no_name(names: dict[str, Any]) -> None:
    pem = world.request(world.node_subject("a"), names=SubjectAltNames(**names))
    with pytest.raises(PolicyError, match="subjectAltNames are not allowed"):
        sign(CA, pem, NODE_CLIENT, world.CLIENT_USAGES)


def test_serials_are_not_counted() -> None:
    serials = {certificate_builder.random_serial(certificate_builder.STRICT_SERIAL_BITS) for _ in range(1000)}
    assert len(serials) == 1000 and max(serials).bit_length() > 100
