"""S8: PEM that burns processor time (CVE-2024-12401): every reader is linear, and every kind has its cap."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, SupportsIndex

import pytest

from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec, validate_cluster_trust_bundle
from kubevouch.api.webhook_clients import ca_bundle_fault
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.tls import ClientTLS, client_context
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import certificate_chain, keys
from kubevouch.pki.errors import ParseError, PKIError
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

    def count(self, sub: Any, start: SupportsIndex | None = None, end: SupportsIndex | None = None) -> int:
        Watched.looked_at += len(self)
        return super().count(sub, start, end)

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
    with suppress(ParseError):
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


MOST_CALLS = 20 * pem.MAX_BLOCKS
"""Of functions of Python. A mebibyte of short blocks took ten times that, and more than 400 ms of an event loop."""

READERS: dict[str, Callable[[bytes], object]] = {
    "request": lambda text: x509_request.parse_pem(text[: x509_request.MAX_REQUEST_BYTES]),
    "bundle": x509_certificate.parse_bundle,
    "one certificate": x509_certificate.parse_pem,
    "chain": certificate_chain.verify_certificate_chain,
    "key": keys.load_pem,
    "encrypted key": keys.is_encrypted,
    "webhook's CA bundle": ca_bundle_fault,
    "trust bundle": lambda text: _trust_bundle_faults(text.decode()),
    "client's CA bundle": lambda text: client_context(ClientTLS(text)),
}


def _trust_bundle_faults(text: str) -> object:
    spec = ClusterTrustBundleSpec(trust_bundle=text)
    return validate_cluster_trust_bundle(ClusterTrustBundle(metadata=ObjectMeta(name="a"), spec=spec))


def _calls(work: Callable[[], object]) -> int:
    """How many functions of Python ``work`` calls; what it raises of ours is an answer."""
    called = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        with suppress(PKIError, ClientConfigurationError):
            work()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("shape", [*SHAPES, "no certificate", "lines of headers", "one header"])
def test_no_reader_takes_a_mebibyte_block_by_block(reader: str, shape: str) -> None:
    block = {
        "no certificate": b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
        "lines of headers": b"a: b\n",
        "one header": b"-----BEGIN CERTIFICATE-----\na: b\n-----END CERTIFICATE-----\n",
        **SHAPES,
    }[shape]
    text = (block * (MEBIBYTE // len(block)))[: MEBIBYTE - 100]
    if shape == "lines of headers":
        text = b"-----BEGIN CERTIFICATE-----\n" + text + b"\n-----END CERTIFICATE-----\n"
    assert _calls(lambda: READERS[reader](text)) < MOST_CALLS


def test_a_thousand_blocks_are_read() -> None:
    block = b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"
    assert sum(1 for _ in pem.blocks(block * pem.MAX_BLOCKS)) == pem.MAX_BLOCKS
    with pytest.raises(ParseError, match="PEM input with 1001 blocks, at most 1000 are read"):
        next(pem.blocks(block * (pem.MAX_BLOCKS + 1)))
    header = b"a: b\n" * pem.MAX_HEADERS
    assert pem.first_block(block.replace(b"MAM", header + b"\nMAM")) is not None
    with pytest.raises(ParseError, match="more than 32 headers"):
        pem.first_block(block.replace(b"MAM", header + b"a: b\n\nMAM"))
