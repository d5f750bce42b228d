"""pki/x509/information_access.py, as another reader reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID

from kubevouch.pki.x509 import certificate_extensions
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.information_access import authority_information_access, ca_issuers, crl_distribution_points
from kubevouch.pki.x509.x509_certificate import Certificate

URLS = ("http://crl.example.com/a.crl", "http://crl.example.com/b.crl")


def test_another_library_finds_the_urls(make_certificate: Callable[..., Certificate]) -> None:
    extra = (*crl_distribution_points(URLS), *authority_information_access(["http://ocsp"], ["http://ca"]))
    read = x509.load_der_x509_certificate(make_certificate(extra=extra).contents)
    points = read.extensions.get_extension_for_class(x509.CRLDistributionPoints)
    assert not points.critical
    assert [name.value for point in points.value for name in point.full_name or ()] == list(URLS)
    access = read.extensions.get_extension_for_class(x509.AuthorityInformationAccess)
    assert not access.critical
    assert [(each.access_method, each.access_location.value) for each in access.value] == [
        (AuthorityInformationAccessOID.OCSP, "http://ocsp"),
        (AuthorityInformationAccessOID.CA_ISSUERS, "http://ca"),
    ]


def test_without_urls_there_is_no_extension_and_no_url_is_bent_to_fit() -> None:
    assert crl_distribution_points(()) == () and authority_information_access((), ()) == ()
    with pytest.raises(ValueError, match="ascii"):
        crl_distribution_points(["http://ü"])


def test_the_issuers_place_is_read_again() -> None:
    written = authority_information_access(["http://ocsp"], ["http://ca", "http://other"])
    assert ca_issuers(written) == ("http://ca", "http://other")
    assert ca_issuers(crl_distribution_points(URLS)) == ()


@pytest.mark.parametrize(
    "value",
    [b"", b"\x30\x00", b"\x30\x02\x30\x00", b"\x04\x00", "cut", "short", "not ascii"],
)
def test_what_names_no_place_is_no_error(value: bytes | str) -> None:
    good = authority_information_access([], ["http://ca"])[0].value
    changed = {"cut": good[:-1], "short": good[: good.index(b"http") - 2], "not ascii": good.replace(b"ca", b"c\xff")}
    octets = value if isinstance(value, bytes) else changed[value]
    assert ca_issuers([Extension(certificate_extensions.AUTHORITY_INFO_ACCESS, False, octets)]) == ()
