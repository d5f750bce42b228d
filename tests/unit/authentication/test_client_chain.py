"""What is remembered of client certificates; that dates and anchors still count is in test_x509.py."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.interface import AuthenticationError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.testing.clock import FakeClock
from unit.authentication.client_certificates import ANCHORS, HOUR, NOW, OTHER, OTHER_CA, chain

SECOND = dt.timedelta(seconds=1)


class Concluding:
    """Counts how often a certificate was looked at."""

    def __init__(self, **bounds: int) -> None:
        self.serials: list[int] = []
        self.clock = FakeClock(NOW)
        self.verifier = ClientChainVerifier(ANCHORS, self.clock, self, **bounds)

    def __call__(self, chain: Sequence[Certificate]) -> int:
        self.serials.append(chain[0].serial)
        return chain[0].serial

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


def test_the_oldest_of_too_many_is_forgotten() -> None:
    it, (a, b, c) = Concluding(remembered=2), map(chain, "abc")
    assert [it.sees(each) for each in (a, b, a, c, b, a)] == [True, True, False, True, False, True]


def test_bytes_are_counted_too() -> None:
    """Behind its own certificate a client may show what it likes."""
    a, b = map(chain, "ab")
    it = Concluding(remembered_bytes=len(a[0]) + len(b[0]))
    assert [it.sees(each) for each in (a, b, a, b)] == [True, True, False, False]
    assert [it.sees(each) for each in ((*a, b[0]), a)] == [True, True]
    it = Concluding(remembered_bytes=0)
    assert [it.sees(each) for each in (b, b)] == [True, True]


def test_the_clients_own_certificate_is_what_counts() -> None:
    it, presented = Concluding(), chain()
    assert it.verifier.verify(presented).conclusion == x509_certificate.parse_der(presented[0]).serial


@pytest.mark.parametrize("moment", [NOW - HOUR, NOW + HOUR])
def test_what_is_remembered_holds_to_the_second(moment: dt.datetime) -> None:
    it, presented = Concluding(), chain()
    assert it.sees(presented)
    it.clock.set(moment)
    assert not it.sees(presented)
    it.clock.set(moment + (moment - NOW) / 3600)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="expired or is not yet valid"):
            it.verifier.verify(presented)


def test_one_refusal_is_not_anothers() -> None:
    it, good, bad = Concluding(), chain(), chain("b", issuer=OTHER_CA)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="unknown authority"):
            it.verifier.verify(bad)
    assert it.verifier.verify(good).conclusion == x509_certificate.parse_der(good[0]).serial


@pytest.mark.parametrize(("seconds", "accepted"), [(9, False), (10, True), (-2, False)])
def test_a_refusal_ends(seconds: int, accepted: bool) -> None:
    """That of a certificate which has begun meanwhile."""
    it, presented = Concluding(), chain()
    it.clock.set(NOW - HOUR - SECOND)
    with pytest.raises(AuthenticationError, match="expired or is not yet valid"):
        it.verifier.verify(presented)
    it.clock.set(NOW - HOUR - SECOND + seconds * SECOND)
    if accepted:
        assert it.sees(presented)
        return
    with pytest.raises(AuthenticationError, match="expired or is not yet valid"):
        it.verifier.verify(presented)


def test_the_oldest_of_too_many_refusals_is_forgotten() -> None:
    it, presented = Concluding(remembered=1), chain()
    it.clock.set(NOW - HOUR - SECOND)
    for each in (presented, chain("b"), chain("c")):
        with pytest.raises(AuthenticationError):
            it.verifier.verify(each)
    it.clock.set(NOW)
    assert it.sees(presented)


def test_a_refusal_is_remembered_with_its_words() -> None:
    it, presented = Concluding(), chain()
    it.verifier.replace_anchors(OTHER)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="unknown authority"):
            it.verifier.verify(presented)
    assert it.serials == []
    it.verifier.replace_anchors(ANCHORS)
    assert it.sees(presented)
