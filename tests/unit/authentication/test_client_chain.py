"""What is remembered of client certificates; that dates and anchors still count is in test_x509.py."""

from __future__ import annotations

import pytest

from kubevouch.authentication import client_chain
from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.interface import AuthenticationError
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.testing.clock import FakeClock
from unit.authentication.client_certificates import ANCHORS, HOUR, NOW, OTHER, chain


class Concluding:
    """Counts how often a certificate was looked at."""

    def __init__(self) -> None:
        self.serials: list[int] = []
        self.clock = FakeClock(NOW)
        self.verifier = ClientChainVerifier(ANCHORS, self.clock, self)

    def __call__(self, certificate: Certificate) -> int:
        self.serials.append(certificate.serial)
        return certificate.serial

    def sees(self, presented: tuple[bytes, ...]) -> bool:
        """Whether showing this is looked at, and not remembered."""
        before = len(self.serials)
        assert self.verifier.verify(presented).conclusion in self.serials
        return len(self.serials) > before


def test_a_kept_connection_is_looked_at_once() -> None:
    it, presented = Concluding(), chain()
    assert [it.sees(presented), it.sees(presented)] == [True, False]
    found = it.verifier.verify(presented)
    assert found.not_after == NOW + HOUR
    it.verifier.replace_anchors(ANCHORS)
    assert it.sees(presented)


def test_the_oldest_of_too_many_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_chain, "MAX_REMEMBERED", 2)
    it, (a, b, c) = Concluding(), map(chain, "abc")
    assert [it.sees(each) for each in (a, b, a, c, b, a)] == [True, True, False, True, False, True]


def test_bytes_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its own certificate a client may show what it likes."""
    (a, b), it = map(chain, "ab"), Concluding()
    monkeypatch.setattr(client_chain, "MAX_REMEMBERED_BYTES", len(a[0]) + len(b[0]))
    assert [it.sees(each) for each in (a, b, a, b)] == [True, True, False, False]
    assert [it.sees(each) for each in ((*a, b[0]), a)] == [True, True]
    monkeypatch.setattr(client_chain, "MAX_REMEMBERED_BYTES", 0)
    assert [it.sees(each) for each in (b, b)] == [True, True]


def test_a_refusal_is_remembered_with_its_words() -> None:
    it, presented = Concluding(), chain()
    it.verifier.replace_anchors(OTHER)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="unknown authority"):
            it.verifier.verify(presented)
    assert it.serials == []
    it.verifier.replace_anchors(ANCHORS)
    assert it.sees(presented)
