"""pki/x509/information_access.py, as another reader reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID

from kubevouch.pki.x509.information_access import authority_information_access, crl_distribution_points
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
