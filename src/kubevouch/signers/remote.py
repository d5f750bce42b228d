"""Signers whose key another program holds: each answer is held against the request before anybody sees it."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kubevouch.pki import issued_elsewhere
from kubevouch.pki.certificate_chain import chain_behind
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import AuthorityError, IssuedMismatchError, ParseError, PolicyError, SignatureError
from kubevouch.pki.issuance import SigningRules, verify_signable
from kubevouch.pki.issued_elsewhere import CLOCKS_DIFFER, Expectation
from kubevouch.pki.policy import lifetime, verify_no_escalation
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.signers.interface import (
    Decision,
    OverlongError,
    SignerUnavailable,
    SigningStopped,
    UndecidedError,
)
from kubevouch.util.clock import Clock, wait_at_most
from kubevouch.util.files import Stamp, stamp
from kubevouch.util.logger import get_logger

log = get_logger("signers.remote")

AT_ONCE = 32
"""Requests that wait for one signer: 16 of nodes and 16 of pods, see ``controllers.outside_questions``. More are sent
away for a moment."""
_BUSY_RETRY_SECONDS = 0.2
_MAX_INTERMEDIATES = 32


class Issuer(Protocol):
    """What reaches the program that signs."""

    @property
    def kind(self) -> str:
        """For logs and metrics: ``process``, ``webhook``, ``acme``, ``cfssl``."""
        ...

    @property
    def own_subject(self) -> bool:
        """Whether it leaves the subject of a request out, or puts one of the names there."""
        ...

    @property
    def own_lifetimes(self) -> bool:
        """Whether it cannot be told how long a certificate may last, and issues for as long as it is configured."""
        ...

    async def obtain(self, decision: Decision) -> bytes:
        """The certificate that ``decision`` allows and what belongs behind it, in PEM.

        Raises:
            SignerUnavailable: not now.
            PolicyError: it never will; the text is for the Failed condition.
            SignerError: it has not, and a later try may help.
        """
        ...


class Anchors:
    """The CA certificates in a file, read again when it changes."""

    def __init__(self, path: Path) -> None:
        """Raises :class:`AuthorityError`: there are none."""
        self._path = path
        self._stamp: Stamp | None = None
        self._anchors = self._read()

    def _read(self) -> TrustAnchors:
        seen = stamp(self._path)
        try:
            anchors = TrustAnchors.from_pem(self._path.read_bytes())
        except (OSError, ParseError) as err:
            why = (err.strerror or str(err)).lower() if isinstance(err, OSError) else str(err)
            raise AuthorityError(f"the trusted CAs of {self._path} cannot be read: {why}") from err
        self._stamp = seen
        return anchors

    def now(self) -> TrustAnchors:
        """What a file says that cannot be read counts for nothing: those of before stay."""
        if stamp(self._path) != self._stamp:
            try:
                self._anchors = self._read()
            except AuthorityError as err:
                log.error("the trusted CAs are not taken over", err=str(err))
        return self._anchors


class RemoteSigner:
    """See ``signers.interface.Signer``.

    A certificate that is not what was allowed stops the signer for good: what answers is broken, or somebody else. One
    that only lasts longer than this request may have it is refused, and the signer goes on: otherwise any requester
    could stop it by asking for a short one.
    """

    def __init__(
        self,
        issuer: Issuer,
        anchors: Anchors,
        rules: SigningRules,
        clock: Clock,
        *,
        seconds: float,
        tolerated: frozenset[str] = frozenset(),
    ) -> None:
        """
        Args:
            seconds: how long one answer may take.
            tolerated: OIDs of extended key usages and of extensions that the issuer adds.
        """
        self._issuer = issuer
        self._anchors = anchors
        self._rules = rules
        self._clock = clock
        self._seconds = seconds
        self._tolerated = tolerated
        self._waiting = 0
        self._stopped = ""
        self._intermediates: dict[bytes, Certificate] = {}

    def with_rules(self, rules: SigningRules, pool: Sequence[Certificate]) -> RemoteSigner:  # noqa: ARG002 - its own
        """The same program, and whether it has stopped, under other rules; what is behind certificates it sends."""
        same = copy.copy(self)
        same._rules = rules
        return same

    @property
    def kind(self) -> str:
        """See ``signers.interface.Signer``."""
        return self._issuer.kind

    @property
    def ends(self) -> dt.datetime | None:
        """See ``signers.interface.Signer``."""
        return None

    @property
    def rules(self) -> SigningRules:
        return self._rules

    async def sign(self, decision: Decision) -> Certificate:
        """See ``signers.interface.Signer``."""
        if not isinstance(decision, Decision):
            raise UndecidedError(f"got {type(decision).__name__}, expected a decision")
        self._expect_running()
        expected = self._expectation(decision)
        latest = self._clock.now() + self._granted(decision)
        if self._waiting >= AT_ONCE:
            raise SignerUnavailable(f"{AT_ONCE} requests wait for the {self._issuer.kind}", _BUSY_RETRY_SECONDS)
        self._waiting += 1
        try:
            text = await wait_at_most(self._clock, self._issuer.obtain(decision), self._seconds)
        except TimeoutError:
            raise SignerUnavailable(f"the {self._issuer.kind} has not answered within {self._seconds:g} s") from None
        finally:
            self._waiting -= 1
        # Others may have found it out meanwhile.
        self._expect_running()
        try:
            leaf, *behind = issued_elsewhere.verify_issued_elsewhere(
                text, expected, self._anchors.now(), now=self._clock.now()
            )
        except IssuedMismatchError as err:
            self._stopped = str(err)
            log.critical(
                "signing has stopped: a certificate is not what was asked for",
                csr=decision.wanted.name, signer=decision.wanted.signer_name, by=self._issuer.kind, err=str(err),
            )  # fmt: skip
            raise
        if leaf.not_after > latest + CLOCKS_DIFFER:
            raise OverlongError(
                f"the {self._issuer.kind} issued a certificate until {leaf.not_after:%Y-%m-%dT%H:%M:%SZ}, granted is "
                f"until {latest:%Y-%m-%dT%H:%M:%SZ}: it is not given out",
                leaf,
            )
        for each in behind[-_MAX_INTERMEDIATES:]:
            self._intermediates.pop(each.contents, None)
            self._intermediates[each.contents] = each
        while len(self._intermediates) > _MAX_INTERMEDIATES:
            del self._intermediates[next(iter(self._intermediates))]
        return leaf

    def chain_of(self, certificate: Certificate) -> Sequence[Certificate]:
        """See ``signers.interface.Signer``: what came with certificates, and what is trusted."""
        return chain_behind(certificate, (*self._intermediates.values(), *self._anchors.now().certificates))

    def _expect_running(self) -> None:
        if self._stopped:
            raise SigningStopped(f"this signer has stopped: {self._stopped}")

    def _expectation(self, decision: Decision) -> Expectation:
        """What is asked for, once everything holds that would have to hold if the key were here."""
        wanted, rules = decision.wanted, decision.rules
        request = wanted.request
        _expect_its_own_words(request, self._issuer.kind, self._tolerated)
        grant = verify_signable(
            wanted.signer_name, request, wanted.usages, rules, expiration_seconds=wanted.expiration_seconds
        )
        if grant.is_ca or grant.extensions:
            raise PolicyError(f"the {self._issuer.kind} issues no certificates of CAs and no extensions of one's own")
        try:
            x509_request.verify_signature(request, post_quantum=rules.post_quantum)
        except SignatureError as err:
            raise SignatureError(f"unable to verify certificate request signature: {err}") from err
        verify_no_escalation(wanted.signer_name, grant.subject)
        if self._issuer.own_subject and not grant.alt_names:
            raise PolicyError(f"the {self._issuer.kind} issues certificates for names, and none is asked for")
        return Expectation(
            public_key=request.public_key,
            subject=grant.subject,
            alt_names=grant.alt_names,
            usages=grant.usages,
            not_after=self._latest(decision),
            tolerated=self._tolerated,
            own_subject=self._issuer.own_subject,
        )

    def _latest(self, decision: Decision) -> dt.datetime:
        """The end that no request may go beyond: what signs for longer is not the CA that was configured."""
        return self._clock.now() + lifetime(None, decision.rules.signing_duration)

    def _granted(self, decision: Decision) -> dt.timedelta:
        """For how long this request may have a certificate. A CA with lifetimes of its own may use all that the signer
        grants where the request only wishes for less."""
        wanted, most = decision.wanted, decision.rules.signing_duration
        is_wish = self._issuer.own_lifetimes and not wanted.is_granted
        return lifetime(None if is_wish else wanted.expiration_seconds, most)


def _expect_its_own_words(request: CertificateRequest, kind: str, tolerated: frozenset[str]) -> None:
    """What another program signs it reads in the request itself.

    Raises:
        PolicyError: what was allowed is not what is written there, as in requests for pods; or more is written there
            than any certificate may say.
    """
    try:
        written = x509_request.parse_der(request.contents)
    except ParseError:
        written = None
    if written is None or (written.subject, written.alt_names) != (request.subject, request.alt_names):
        raise PolicyError(f"the {kind} reads names in requests, and those in this one are not the ones to sign")
    try:
        issued_elsewhere.verify_copyable(written, tolerated)
    except PolicyError as err:
        raise PolicyError(f"the {kind} may copy what a request says: {err}") from err
