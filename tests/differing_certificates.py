"""Certificates and requests from which the search for differences between readers starts."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address

import odd_certificates
from certificate_differences import KEY, information
from kubevouch.pki.authority import create_authority
from kubevouch.pki.control_plane import AUTHORITIES, CA
from kubevouch.pki.x509 import certificate_extensions
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_NAMES = odd_certificates.extension(
    certificate_extensions.SUBJECT_ALT_NAME,
    SubjectAltNames(
        dns_names=("worker-1", "*.example.com"),
        email_addresses=("a@example.com",),
        ip_addresses=(ip_address("192.0.2.1"), ip_address("2001:db8::1")),
        uris=("https://example.com/a",),
    ).encode(),
)
_CLIENT = odd_certificates.extension(
    certificate_extensions.EXTENDED_KEY_USAGE, bytes.fromhex("300a06082b06010505070302")
)
_WIDE = Subject(
    common_name="système", organizations=("a", "b"), organizational_units=("c",), countries=("DE",), serial_number="5"
).encode()

REQUESTS = [
    information(contents)
    for contents in (
        odd_certificates.request(KEY),
        odd_certificates.request(KEY, _NAMES),
        odd_certificates.request(KEY, _NAMES, name=_WIDE),
        odd_certificates.request(KEY, _NAMES, _CLIENT, name=b"\x30\x00"),
        odd_certificates.request(KEY, attributes=b""),
    )
]
_AUTHORITY = create_authority(AUTHORITIES[CA], KEY, now=_NOW)
CERTIFICATES = [
    information(contents)
    for contents in (
        odd_certificates.certificate(_AUTHORITY, KEY, _CLIENT, now=_NOW),
        odd_certificates.certificate(_AUTHORITY, KEY, _NAMES, _CLIENT, now=_NOW, name=_WIDE),
        _AUTHORITY.certificate.contents,
    )
]
WORDS = [
    bytes.fromhex(word)
    for word in (
        "0500", "0101ff", "010100", "0603550403", "0603550411", "0c00", "1300", "1e00", "3000", "3100", "a000", "8200",
        "8700", "020100", "0201ff", "170d3236303130313030303030305a",
    )
]  # fmt: skip
