"""Verification of TLS client certificates that remembers what it has verified.

A kept connection sends the same certificates with every request. The signatures are checked once; the dates of every
certificate on the way to the trust anchor are checked each time, so that a connection does not outlive them. With a
front proxy configured every other client is refused by its verifier on each request, so refusals are remembered too.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from kubevouch.authentication.interface import AuthenticationError
from kubevouch.pki.client_certificate import TrustAnchors, verify_presented
from kubevouch.pki.errors import ClientCertificateError
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.clock import Clock

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

# As many as there are nodes in the largest clusters; an entry holds a parsed certificate, some 5 KiB.
MAX_REMEMBERED = 10_000
# A client may show what it likes behind its certificate, and each time something else. Its own has about 1 KiB.
MAX_REMEMBERED_BYTES = 32 << 20
# A refusal may end with time, when a certificate begins.
REFUSAL_LIFETIME = dt.timedelta(seconds=10)


class Verified(msgspec.Struct, Generic[T], frozen=True):
    """What follows from a client's certificate, as long as its whole chain is valid."""

    conclusion: T
    not_before: dt.datetime
    not_after: dt.datetime


class ClientChainVerifier(Generic[T]):
    """Verifies chains against trust anchors that may be replaced at any time.

    Args:
        anchors: the CA bundle.
        clock: decides about dates.
        conclude: what a verified chain means, the client's own certificate first and the anchor last; may raise
            ``ClientCertificateError``.
        remembered: how many chains, and how many refusals, are kept.
        remembered_bytes: how much of certificates in DER.
    """

    def __init__(
        self,
        anchors: TrustAnchors,
        clock: Clock,
        conclude: Callable[[Sequence[Certificate]], T],
        *,
        remembered: int = MAX_REMEMBERED,
        remembered_bytes: int = MAX_REMEMBERED_BYTES,
    ) -> None:
        self._anchors = anchors
        self._clock = clock
        self._conclude = conclude
        self._remembered = remembered
        self._remembered_bytes = remembered_bytes
        self._verified: dict[tuple[bytes, ...], Verified[T]] = {}
        self._verified_bytes = 0
        # By digest: whoever is refused must not choose how much memory that takes.
        self._refused: dict[bytes, tuple[dt.datetime, str]] = {}

    def replace_anchors(self, anchors: TrustAnchors) -> None:
        """Trust other anchors from the next request on, on open connections too."""
        self._anchors = anchors
        self._verified.clear()
        self._verified_bytes = 0
        self._refused.clear()

    def verify(self, presented: tuple[bytes, ...]) -> Verified[T]:
        """What follows from the certificates of a handshake, in DER, leaf first.

        Raises:
            AuthenticationError: they prove nothing.
        """
        now = self._clock.now()
        known = self._verified.get(presented)
        if known is not None:
            if known.not_before <= now <= known.not_after:
                return known
            # Another way to an anchor may still be valid, and if none is, the error has to say what ended.
            self._forget(presented)
        digest = hashlib.sha256(b"".join(presented)).digest()
        since, refusal = self._refused.get(digest, (now, ""))
        if refusal and now - REFUSAL_LIFETIME < since <= now:
            raise AuthenticationError(refusal)
        try:
            verified = self._verify(presented, now)
        except ClientCertificateError as err:
            self._remember(self._refused, digest, (now, str(err)), self._refused.__delitem__)
            raise AuthenticationError(str(err)) from err
        self._remember(self._verified, presented, verified, self._forget)
        self._verified_bytes += sum(map(len, presented))
        while self._verified_bytes > self._remembered_bytes:
            self._forget(next(iter(self._verified)))
        return verified

    def _forget(self, presented: tuple[bytes, ...]) -> None:
        del self._verified[presented]
        self._verified_bytes -= sum(map(len, presented))

    def _remember(self, table: dict[K, V], key: K, value: V, forget: Callable[[K], None]) -> None:
        """Puts the newest last, and drops the oldest of too many."""
        if key in table:
            forget(key)
        if len(table) >= self._remembered:
            forget(next(iter(table)))
        table[key] = value

    def _verify(self, presented: Sequence[bytes], now: dt.datetime) -> Verified[T]:
        chain = verify_presented(presented, self._anchors, now=now)
        return Verified(
            self._conclude(chain),
            max(certificate.not_before for certificate in chain),
            min(certificate.not_after for certificate in chain),
        )
