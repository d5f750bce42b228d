"""What may stand in ``status.certificate`` (Kubernetes 1.36 ``pkg/apis/certificates/validation``), in which order."""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.client_certificate import is_issued_by, is_self_signed
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.x509_certificate import Certificate, parse_concatenated

_LEAST_BLOCK_BYTES = 256
"""No certificate fits into a shorter block: kube-apiserver takes as many as fit into a request."""


def verify_certificate_chain(text: bytes) -> list[Certificate]:
    """Every certificate in ``text``, which must hold at least one PEM block and only plain CERTIFICATE blocks.

    Text around the blocks is fine; one block may hold several certificates. Nothing is said about who they are for.

    Raises:
        ParseError: with the API server's text; the first violation counts.
    """
    chain: list[Certificate] = []
    seen = False
    for block in pem.blocks(text, most=max(pem.MAX_BLOCKS, len(text) // _LEAST_BLOCK_BYTES)):
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


MAX_CHAIN = 8
"""Certificates behind a leaf. Peers look at ten or so (``client_certificate.MAX_PRESENTED``)."""


def chain_behind(leaf: Certificate, pool: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Of ``pool``, what is presented behind ``leaf``, each certificate after one that it certifies.

    Every way counts, so that a CA that several have signed leads to each of them; what is nearest to the leaf comes
    first. Self-signed certificates are left out: whoever trusts one has it (RFC 8446 section 4.4.2).
    """
    others = {each.contents: each for each in pool if each.contents != leaf.contents}
    left = [each for each in others.values() if not is_self_signed(each)]
    behind: list[Certificate] = []
    heads = [leaf]
    while heads and len(behind) < MAX_CHAIN:
        head = heads.pop(0)
        above = [each for each in left if is_issued_by(head, each)]
        left = [each for each in left if each not in above]
        behind += above
        heads += above
    return tuple(behind[:MAX_CHAIN])
