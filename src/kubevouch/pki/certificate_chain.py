"""What may stand in ``status.certificate`` (Kubernetes 1.36 ``pkg/apis/certificates/validation``)."""

from __future__ import annotations

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.x509_certificate import Certificate, parse_concatenated


def verify_certificate_chain(text: bytes) -> list[Certificate]:
    """Every certificate in ``text``, which must hold at least one PEM block and only plain CERTIFICATE blocks.

    Text around the blocks is fine; one block may hold several certificates. Nothing is said about who they are for.

    Raises:
        ParseError: with the API server's text; the first violation counts.
    """
    chain: list[Certificate] = []
    seen = False
    for block in pem.blocks(text):
        if block.type != pem.CERTIFICATE:
            raise ParseError(f"only CERTIFICATE PEM blocks are allowed, found {quote(block.type)}")
        if block.headers:
            raise ParseError("no PEM block headers are permitted")
        certificates = parse_concatenated(block.contents)
        if not certificates:
            raise ParseError("found CERTIFICATE PEM block containing 0 certificates")
        chain.extend(certificates)
        seen = True
    if not seen:
        raise ParseError("must contain at least one CERTIFICATE PEM block")
    return chain
