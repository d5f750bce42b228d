"""Forged CRLs and OCSP answers find no reader; bad requests to our own responder are refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import kubevouch
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import ocsp

SOURCES = Path(kubevouch.__file__).parent
RESPONDERS = {"revocation/publication.py", "server/revocation_paths.py"}
"""Who knows of OCSP at all: what answers. Nothing here asks."""
_IMPORT = re.compile(
    r"^\s*(?:from kubevouch\.pki\.x509\.ocsp import|from kubevouch\.pki\.x509 import .*\bocsp\b)", re.M
)
_FOREIGN = re.compile(
    r"load_(?:der|pem)_(?:x509_crl|ocsp_\w+)|VERIFY_CRL_CHECK|cryptography\.x509\.ocsp|x509 import ocsp\b"
)
_OWN = "kubevouch.pki.x509 import ocsp"


def test_nothing_reads_a_crl_or_an_ocsp_answer_of_somebody_else() -> None:
    """Who adds a reader answers for forged, expired and replayed ones: their tests belong here."""
    texts = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    assert {name for name, text in texts.items() if _IMPORT.search(text)} == RESPONDERS
    assert not {name for name, text in texts.items() if _FOREIGN.search(text.replace(_OWN, ""))}


def test_the_one_parser_of_ocsp_is_of_requests() -> None:
    text = (SOURCES / "pki/x509/ocsp.py").read_text()
    assert re.findall(r"^def ([a-z]\w*)", text, re.M) == ["parse_request", "to_be_signed", "response"]


@pytest.mark.parametrize(
    "octets", [b"", b"0", b"0\x84" + b"\xff" * 4, b"0\x80" * 4000, b"0\x00", b"\xff" * 100, bytes(ocsp.MAX_REQUEST + 1)]
)
def test_bad_requests_are_refused(octets: bytes) -> None:
    with pytest.raises(ParseError):
        ocsp.parse_request(octets)


def test_random_requests_are_refused() -> None:
    drawn = random.Random(7)
    for _ in range(2000):
        with pytest.raises(ParseError):
            ocsp.parse_request(b"0" + drawn.randbytes(drawn.randrange(1, 200)))
