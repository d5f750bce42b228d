"""Extensions that say where something about a certificate is found (RFC 5280 sections 4.2.1.13 and 4.2.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

from kubevouch.pki.errors import DERError
from kubevouch.pki.x509 import certificate_extensions, der
from kubevouch.pki.x509.certificate_extensions import Extension

_URI = 0x86
_CONTEXT_0 = 0xA0
_OCSP = der.encode_object_identifier("1.3.6.1.5.5.7.48.1")
_CA_ISSUERS = der.encode_object_identifier("1.3.6.1.5.5.7.48.2")


def crl_distribution_points(urls: Sequence[str]) -> tuple[Extension, ...]:
    """Where the CRLs are: each URL has all of it. None without a URL. Raises ``ValueError`` for one not in ASCII."""
    if not urls:
        return ()
    names = (der.encode(_URI, url.encode("ascii")) for url in urls)
    points = (der.encode(der.SEQUENCE, der.encode(_CONTEXT_0, der.encode(_CONTEXT_0, name))) for name in names)
    return (Extension(certificate_extensions.DISTRIBUTION_POINTS, False, der.encode(der.SEQUENCE, *points)),)


def authority_information_access(ocsp: Sequence[str], issuers: Sequence[str]) -> tuple[Extension, ...]:
    """Who answers by OCSP, and where the CA's own certificate is. None without a URL. Raises ``ValueError``."""
    described = [(_OCSP, url) for url in ocsp] + [(_CA_ISSUERS, url) for url in issuers]
    if not described:
        return ()
    entries = (der.encode(der.SEQUENCE, oid, der.encode(_URI, url.encode("ascii"))) for oid, url in described)
    return (Extension(certificate_extensions.AUTHORITY_INFO_ACCESS, False, der.encode(der.SEQUENCE, *entries)),)


def ca_issuers(extensions: Sequence[Extension]) -> tuple[str, ...]:
    """Where a certificate says that its CA's own certificate is. Whoever made the certificate chose these URLs.

    What is no such extension, and URLs that are not in ASCII, say nothing.
    """
    found: list[str] = []
    for each in extensions:
        if each.oid != certificate_extensions.AUTHORITY_INFO_ACCESS:
            continue
        value = each.value
        try:
            start, stop = der.expect(value, 0, len(value), der.SEQUENCE)
            for _, begin, end in der.elements(value, start, stop, der.SEQUENCE):
                if value.startswith(_CA_ISSUERS, begin) and value[begin + len(_CA_ISSUERS)] == _URI:
                    place, behind = der.expect(value, begin + len(_CA_ISSUERS), end, _URI)
                    found.append(value[place:behind].decode("ascii"))
        except (DERError, IndexError, UnicodeDecodeError):
            continue
    return tuple(found)
