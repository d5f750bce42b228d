from __future__ import annotations

from collections.abc import Callable

import pytest

from kubevouch.pki.certificate_chain import verify_certificate_chain
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem
from kubevouch.pki.x509.x509_certificate import Certificate


def test_one_block_or_many_with_text_between(make_certificate: Callable[..., Certificate]) -> None:
    one, two = make_certificate(serial=1), make_certificate(serial=2)
    joined = pem.encode(pem.CERTIFICATE, one.contents + two.contents)
    text = b"before\n" + one.pem() + b"between\n" + joined + b"behind"
    assert verify_certificate_chain(text) == [one, one, two]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must contain at least one CERTIFICATE PEM block"),
        (pem.encode('a"\xff', b""), 'only CERTIFICATE PEM blocks are allowed, found "a\\"ÿ"'),
        (b"-----BEGIN \xff-----\n-----END \xff-----\n", 'only CERTIFICATE PEM blocks are allowed, found "\\xff"'),
        (pem.encode(pem.CERTIFICATE, b"", {"a": "b"}), "no PEM block headers are permitted"),
        (pem.encode(pem.CERTIFICATE, b"x"), "x509: malformed certificate"),
        (pem.encode(pem.CERTIFICATE, b""), "found CERTIFICATE PEM block containing 0 certificates"),
    ],
)
def test_refusals(text: bytes, message: str) -> None:
    with pytest.raises(ParseError) as refusal:
        verify_certificate_chain(text)
    assert str(refusal.value) == message
