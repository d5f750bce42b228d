"""S8: PEM that burns processor time (CVE-2024-12401): every reader is linear, and every kind has its cap."""

from __future__ import annotations

from typing import Any, SupportsIndex

import pytest

from kubevouch.pki import certificate_chain, keys
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import pem, x509_certificate, x509_request

MEBIBYTE = 1 << 20
# A scanner looks for the END, then back for the BEGIN, then at the lines between them.
TIMES = 6
SHAPES = {
    "begins": b"-----BEGIN",
    "begin lines": b"-----BEGIN CERTIFICATE-----\n",
    "begins after newlines": b"\n-----BEGIN ",
    "ends": b"\n-----END ",
    "dashes": b"-",
    "another label at the end": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
    "no base64": b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
    "headers": b"-----BEGIN CERTIFICATE-----\na: b\na: b\n",
    "colons": b"-----BEGIN CERTIFICATE-----\n::::\n",
    "begin in begin": b"-----BEGIN -----BEGIN -----END \n-----END ",
    "empty blocks": b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    "newlines": b"\n",
}


class Watched(bytes):
    """Counts the octets that are looked at; what is cut out of it is plain, and counts once."""

    looked_at = 0

    def find(self, sub: Any, start: SupportsIndex | None = None, end: SupportsIndex | None = None) -> int:
        found = super().find(sub, start, end)
        stop = len(self) if end is None else end.__index__()
        Watched.looked_at += len(sub) + (stop if found < 0 else found) - (0 if start is None else start.__index__())
        return found

    def rfind(self, sub: Any, start: SupportsIndex | None = None, end: SupportsIndex | None = None) -> int:
        found = super().rfind(sub, start, end)
        begin = 0 if start is None else start.__index__()
        Watched.looked_at += (
            len(sub) + (len(self) if end is None else end.__index__()) - (begin if found < 0 else found)
        )
        return found

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        Watched.looked_at += len(got) if isinstance(got, bytes) else 1
        return got

    def startswith(self, prefix: Any, *where: Any) -> bool:
        Watched.looked_at += len(prefix)
        return super().startswith(prefix, *where)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("before", [b"", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_mebibyte_is_looked_at_a_few_times(shape: str, before: bytes) -> None:
    text = Watched((before + SHAPES[shape] * (MEBIBYTE // len(SHAPES[shape])))[:MEBIBYTE])
    Watched.looked_at = 0
    assert all(block.type for block in pem.blocks(text))
    assert 0 < Watched.looked_at <= TIMES * len(text)


def test_the_measure_tells_who_looks_too_often() -> None:
    text = Watched(b"\n-----END " * 1000)
    Watched.looked_at = 0
    for at in range(0, len(text), 10):
        text.rfind(b"-----BEGIN ", 0, at)
    assert Watched.looked_at > 100 * len(text)


@pytest.mark.parametrize(
    ("read", "cap"),
    [
        (x509_request.parse_pem, x509_request.MAX_REQUEST_BYTES),
        (x509_certificate.parse_bundle, pem.MAX_INPUT),
        (certificate_chain.verify_certificate_chain, pem.MAX_INPUT),
        (keys.load_pem, pem.MAX_INPUT),
    ],
)
def test_every_kind_has_a_cap(read: Any, cap: int) -> None:
    Watched.looked_at = 0
    with pytest.raises(PKIError):
        read(Watched(b"-" * (cap + 1)))
    assert Watched.looked_at < 64
