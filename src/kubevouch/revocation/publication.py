"""What anybody may read of what is revoked: lists that are signed from time to time, and answers that are signed when
somebody asks. The controller that signs lists puts them here, the API server serves them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import NamedTuple

from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import ocsp
from kubevouch.pki.x509.ocsp import CertificateID, SingleStatus
from kubevouch.revocation.revocations import Revocations, Revoked

PREFIX = "/pki"
CRL_TYPE, CERTIFICATE_TYPE = "application/pkix-crl", "application/pkix-cert"
OCSP_REQUEST_TYPE, OCSP_TYPE = "application/ocsp-request", "application/ocsp-response"
OCSP_LIFE = dt.timedelta(hours=1)
"""How long an answer may be used. It is signed again in the second half of it."""
MAX_ANSWERS = 20_000
"""Answers that are kept, of some 300 bytes each."""
NONCES_PER_SECOND, NONCES_AT_ONCE = 50.0, 200.0
"""Answers that are signed for one who asks with a nonce; who comes beyond gets what is kept, which has none (RFC 9654
section 2.1 leaves it to the client whether that is enough)."""


class Document(NamedTuple):
    """``until``: when it is too old to be used."""

    body: bytes
    content_type: str
    until: dt.datetime


class _Kept(NamedTuple):
    body: bytes
    produced: dt.datetime


class Publication:
    """Of the authorities whose keys are at hand.

    Args:
        url: of the API server, without a slash at the end: it stands in lists.
    """

    def __init__(self, revocations: Revocations, url: str = "") -> None:
        self.revocations = revocations
        self.url = url
        self.documents: Mapping[str, Document] = {}
        """By path below :data:`PREFIX`."""
        self._authorities: Mapping[bytes, CertificateAuthority] = {}
        self.answers = dict.fromkeys(("kept", "signed", "nonce", "refused"), 0)
        """How many there were, by kind."""
        self._answers: dict[tuple[bytes, ...], _Kept] = {}
        self._nonces = NONCES_AT_ONCE
        self._nonces_at: dt.datetime | None = None
        self._changes = 0
        revocations.on_change(self._forget)

    def _forget(self) -> None:
        self._changes += 1
        self._answers.clear()

    def publish(self, authorities: Mapping[bytes, CertificateAuthority], documents: Mapping[str, Document]) -> None:
        """Serve these from now on. ``authorities`` are by their key identifier."""
        self._authorities = dict(authorities)
        self.documents = dict(documents)
        self._forget()

    # -------------------------------------------------------------- OCSP

    def answer(self, issuer: bytes, octets: bytes, now: dt.datetime) -> Document | Unsigned:
        """The OCSP response of an authority to a request; one that has to be signed first is kept with :meth:`keep`."""
        authority = self._authorities.get(issuer)
        try:
            request = ocsp.parse_request(octets)
        except ParseError:
            return self._refused(ocsp.MALFORMED_RESPONSE, now)
        if authority is None or not all(each.is_of(authority.certificate) for each in request.certificates):
            return self._refused(ocsp.UNAUTHORIZED_RESPONSE, now)
        if request.nonce and self._takes_nonce(now):
            return self._unsigned(authority, issuer, request.certificates, now, request.nonce)
        kept = self._answers.get(tuple(each.contents for each in request.certificates))
        # A clock that was set back makes an answer of the future: it is not given.
        if kept is None or not kept.produced <= now < kept.produced + OCSP_LIFE / 2:
            return self._unsigned(authority, issuer, request.certificates, now)
        self.answers["kept"] += 1
        return Document(kept.body, OCSP_TYPE, kept.produced + OCSP_LIFE / 2)

    def _refused(self, body: bytes, now: dt.datetime) -> Document:
        self.answers["refused"] += 1
        return Document(body, OCSP_TYPE, now)

    def keep(self, unsigned: Unsigned, body: bytes) -> Document:
        """The answer, once ``body`` is its signed form. It is not kept if something was revoked meanwhile, nor
        if it is about several certificates: there are more such questions than room.
        """
        self.answers["nonce" if unsigned.nonce else "signed"] += 1
        if unsigned.nonce:
            return Document(body, OCSP_TYPE, unsigned.produced)
        if unsigned.changes == self._changes and len(unsigned.statuses) == 1:
            self._answers.pop(unsigned.key, None)
            if len(self._answers) >= MAX_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[unsigned.key] = _Kept(body, unsigned.produced)
        return Document(body, OCSP_TYPE, unsigned.produced + OCSP_LIFE / 2)

    def _takes_nonce(self, now: dt.datetime) -> bool:
        passed = 0.0 if self._nonces_at is None else max(0.0, (now - self._nonces_at).total_seconds())
        self._nonces_at = now
        self._nonces = min(NONCES_AT_ONCE, self._nonces + passed * NONCES_PER_SECOND)
        if self._nonces < 1.0:
            return False
        self._nonces -= 1.0
        return True

    def _unsigned(
        self,
        authority: CertificateAuthority,
        issuer: bytes,
        certificates: tuple[CertificateID, ...],
        now: dt.datetime,
        nonce: bytes = b"",
    ) -> Unsigned:
        statuses = tuple(_status(each, self.revocations.serial(issuer, each.serial)) for each in certificates)
        return Unsigned(authority, statuses, now, nonce, self._changes)


class Unsigned(NamedTuple):
    """An answer that its authority has to sign, which may take its time: beside the loop."""

    authority: CertificateAuthority
    statuses: tuple[SingleStatus, ...]
    produced: dt.datetime
    nonce: bytes
    changes: int

    @property
    def key(self) -> tuple[bytes, ...]:
        return tuple(each.certificate.contents for each in self.statuses)

    def sign(self) -> bytes:
        """Raises KeyMaterialError, or as what holds the key does, when it cannot be used now."""

        def to_be_signed(_identifier: bytes) -> bytes:
            return ocsp.to_be_signed(
                self.statuses,
                self.authority.certificate.subject_name,
                produced=self.produced,
                this_update=self.produced,
                next_update=self.produced + OCSP_LIFE,
                nonce=self.nonce,
            )

        return ocsp.response(self.authority.signed(to_be_signed))


def _status(asked: CertificateID, revoked: Revoked | None) -> SingleStatus:
    if revoked is None:
        return SingleStatus(asked)
    return SingleStatus(asked, revoked.at, revoked.reason)
