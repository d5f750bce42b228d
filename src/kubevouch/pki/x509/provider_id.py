"""The provider id in a node's request: which machine it says it is, as ``spec.providerID`` of its Node will have it.

Source: the Cluster API proposal "Kubelet authentication" (2021), KubernetesNodeProviderIdentifierOID. It leaves the
value's form open: kubevouch writes a UTF8String. The same object identifier is Google's for instances of Compute
Engine, whose value is a SEQUENCE and is none of this. No certificate ever has the extension.
"""

from __future__ import annotations

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.x509_request import CertificateRequest

OID = "1.3.6.1.4.1.11129.2.1.21"
MAX_OCTETS = 1024
_UTF8_STRING = 0x0C


def extension(provider_id: str) -> Extension:
    """What a request has to carry. Raises ``ValueError`` for what nothing could be called."""
    if not _is_printable(provider_id):
        raise ValueError(f"got the provider id {provider_id[:64]!r}, expected 1 to {MAX_OCTETS} printable characters")
    return Extension(OID, False, der.encode(_UTF8_STRING, provider_id.encode()))


def provider_id_of(request: CertificateRequest) -> str:
    """What the request says; empty if it says nothing.

    Raises:
        ParseError: it says something else than one such name.
    """
    for each in request.extensions:
        if each.oid == OID:
            return _parse(each.value)
    return ""


def _parse(value: bytes) -> str:
    what = "provider id"
    try:
        start, stop = der.expect(value, 0, len(value), _UTF8_STRING, 0, what)
        text = value[start:stop].decode()
    except UnicodeDecodeError as err:
        raise ParseError(f"the {what} is not UTF-8") from err
    if stop != len(value) or not _is_printable(text):
        raise ParseError(f"the {what} is not 1 to {MAX_OCTETS} printable characters and nothing else")
    return text


def _is_printable(text: str) -> bool:
    return 0 < len(text.encode(errors="replace")) <= MAX_OCTETS and text.isprintable() and " " not in text
